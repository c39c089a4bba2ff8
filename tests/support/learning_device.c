/* A device that learns by the header fan.h: what tests call. */
#include "fan.h"

#ifdef __cplusplus
extern "C" {
#endif

static fan_learner_t learner;
static fan_answers_t answers;

/* Slots of flash memory, whose power is cut after some bytes were written or erased. */
static struct {
    size_t size, unit;
    ptrdiff_t left;
    union {
        float aligned;
        uint8_t bytes[8192];
    } slots[2];
} flash;

static int write_flash(void *to, int slot, size_t at, const uint8_t *bytes, size_t size)
{
    (void)to;
    for (size_t i = 0; i < size; i++) {
        uint8_t *byte = flash.slots[slot].bytes + at + i;
        if (flash.left-- <= 0 || (bytes && *byte != 0xFF)) /* What is not erased cannot be written. */
            return 1;
        *byte = bytes ? bytes[i] : 0xFF;
    }
    return 0;
}

static fan_slots_t slots(void)
{
    return fan_slots_of(flash.slots[0].bytes, flash.slots[1].bytes, flash.size, flash.unit, write_flash, NULL);
}

static void send_byte(void *to, uint8_t byte)
{
    uint8_t **at = (uint8_t **)to;
    *(*at)++ = byte;
}

/* Begin without rows, and with flash memory full of other bytes. */
int begin(size_t size, size_t unit);
int begin(size_t size, size_t unit)
{
    flash.size = size, flash.unit = unit;
    for (size_t i = 0; i < sizeof(flash.slots); i++)
        flash.slots[i / sizeof(flash.slots[0])].bytes[i % sizeof(flash.slots[0])] = (uint8_t)(37 * i + 11);
    fan_begin(&learner);
    answers = fan_answers_of(NULL);
    return (int)sizeof(learner);
}

int take(const uint8_t *bytes, size_t size, ptrdiff_t left);
int take(const uint8_t *bytes, size_t size, ptrdiff_t left)
{
    const fan_slots_t s = slots();
    int found;
    flash.left = left;
    found = fan_take_weights(&s, bytes, size);
    answers = fan_answers_of(fan_answering(&s));
    return found;
}

int sent(uint64_t device, uint32_t serial, uint8_t *to);
int sent(uint64_t device, uint32_t serial, uint8_t *to)
{
    const size_t size = fan_send(&learner, device, serial, NULL, NULL);
    return fan_send(&learner, device, serial, send_byte, &to) == size ? (int)size : -1;
}

void seal(void);
void seal(void) { fan_seal(&learner); }

int is_sound(void);
int is_sound(void) { return fan_is_sound(&learner); }

void *held(void);
void *held(void) { return &learner; }

#ifdef SOLVES
static float memory[FAN_MEMORY];

float solve(void);
float solve(void) { return fan_solve(&learner, memory, &answers); }
#endif

#ifdef LABELS
int add_label(const char *text);
int add_label(const char *text) { return (int)fan_add_label(&learner.labels, text); }

int learn(const fan_value_t *x, int label);
int learn(const fan_value_t *x, int label) { return fan_learn(&learner, x, label); }

int answer(const fan_value_t *x, float *y, char *text);
int answer(const fan_value_t *x, float *y, char *text)
{
    fan_copy_label(&answers, fan_predict(&answers, x), text);
    fan_scores(&answers, x, y);
    return (int)answers.n;
}
#else
int learn(const fan_value_t *x, const fan_value_t *y);
int learn(const fan_value_t *x, const fan_value_t *y) { return fan_learn(&learner, x, y); }

int answer(const fan_value_t *x, float *y, char *text);
int answer(const fan_value_t *x, float *y, char *text)
{
    text[0] = 0;
    fan_predict(&answers, x, y);
    return (int)answers.n;
}
#endif

#ifdef __cplusplus
}
#endif
