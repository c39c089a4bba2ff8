/* A timer of 24 bits that counts down: see board.c. This machine has none. */
#ifdef BOARD
#define TIMER (*(volatile uint32_t *)0xE000E018)
#else
#define TIMER 0u
#endif
#define TICKS_SINCE(start) (((start) - TIMER) & 0xFFFFFF)
