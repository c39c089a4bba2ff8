/* How a program starts on QEMU's mps2-an386, which loads code and data itself and whose memory is 0. */
#include <stdint.h>
#include <stdlib.h>

extern char stack_top;
int main(void);
void initialise_monitor_handles(void); /* of newlib: files of the host, by semihosting */

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define CPACR REGISTER(0xE000ED88)
#define TIMER_CONTROL REGISTER(0xE000E010)
#define TIMER_START REGISTER(0xE000E014)

void reset(void);
void reset(void)
{
    CPACR |= 0xFu << 20; /* the FPU may be used */
    TIMER_START = 0xFFFFFF;
    TIMER_CONTROL = 5; /* runs at 25 MHz: with -icount shift=0, a tick is 40 instructions */
    initialise_monitor_handles();
    exit(main());
}

__attribute__((section(".vectors"), used)) static const void *const vectors[2] = {&stack_top, (void *)reset};
