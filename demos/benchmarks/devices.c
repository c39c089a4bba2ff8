/* Programs whose bytes are counted: one that predicts, one that learns, and an empty one. */
#if defined(PREDICTS)
#include <stdint.h>
#include MODEL
int main(void)
{
    static VALUE x[M];
    return PREDICT(x);
}
#elif defined(LEARNS)
#include "fan.h"
static fan_learner_t learner;
static uint8_t slots[2][4096], received[4096];
static void send(void *to, uint8_t byte) { *(volatile uint8_t *)to = byte; }
static int write_flash(void *to, int slot, size_t at, const uint8_t *bytes, size_t size)
{
    return ((int (*)(int, size_t, const uint8_t *, size_t))to)(slot, at, bytes, size);
}
int main(void)
{
    static fan_value_t x[FAN_N_FEATURES];
    const fan_slots_t s = fan_slots_of(slots[0], slots[1], 4096, 8, write_flash, (void *)main);
    fan_begin(&learner);
    fan_learn(&learner, x, 0);
    fan_send(&learner, 1, 1, send, received);
    fan_take_weights(&s, received, sizeof(received));
    fan_answers_t answers = fan_answers_of(fan_answering(&s));
#ifdef SOLVES
    static float memory[FAN_MEMORY];
    fan_solve(&learner, memory, &answers);
#endif
    return (int)fan_predict(&answers, x);
}
#else
int main(void) { return 0; }
#endif
