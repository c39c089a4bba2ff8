/* A device that learns by the header fan.h: what tests call. */
#include "fan.h"

#ifdef __cplusplus
extern "C" {
#endif

static fan_learner_t learner;
static fan_answers_t answers;
static float memory[FAN_MEMORY];
static union {
    float aligned;
    uint8_t bytes[2][8192];
} flash;

static int write_flash(void *to, int slot, size_t at, const uint8_t *bytes, size_t size)
{
    (void)to;
    if (bytes)
        memcpy(flash.bytes[slot] + at, bytes, size);
    else
        memset(flash.bytes[slot], 0xFF, size);
    return 0;
}

static fan_slots_t slots(void)
{
    return fan_slots_of(flash.bytes[0], flash.bytes[1], sizeof(flash.bytes[0]), 8, write_flash, NULL);
}

static void send_byte(void *to, uint8_t byte)
{
    uint8_t **at = (uint8_t **)to;
    *(*at)++ = byte;
}

int begin(void);
int begin(void)
{
    const fan_slots_t s = slots();
    fan_begin(&learner);
    memset(flash.bytes, 0xFF, sizeof(flash.bytes));
    answers = fan_answers_of(fan_answering(&s));
    return (int)sizeof(learner);
}

int learn(const fan_value_t *x, const fan_value_t *y, int label);
int learn(const fan_value_t *x, const fan_value_t *y, int label)
{
#ifdef LABELS
    (void)y;
    return fan_learn(&learner, x, label);
#else
    (void)label;
    return fan_learn(&learner, x, y);
#endif
}

int sent(uint64_t device, int serial, uint8_t *to);
int sent(uint64_t device, int serial, uint8_t *to)
{
    const size_t size = fan_send(&learner, device, (uint32_t)serial, NULL, NULL);
    return fan_send(&learner, device, (uint32_t)serial, send_byte, &to) == size ? (int)size : -1;
}

/* Memory that is sealed, damaged or erased. */
void seal(void);
void seal(void) { fan_seal(&learner); }

int is_sound(void);
int is_sound(void) { return fan_is_sound(&learner); }

void *held(void);
void *held(void) { return &learner; }

float solve(void);
float solve(void)
{
#ifdef SOLVES
    return fan_solve(&learner, memory, &answers);
#else
    return memory[0];
#endif
}

int take(const uint8_t *bytes, int size);
int take(const uint8_t *bytes, int size)
{
    const fan_slots_t s = slots();
    const int found = fan_take_weights(&s, bytes, (size_t)size);
    answers = fan_answers_of(fan_answering(&s));
    return found;
}

#ifdef LABELS
int add_label(const char *text);
int add_label(const char *text) { return (int)fan_add_label(&learner.labels, text); }

int answer(const fan_value_t *x, float *y, char *text);
int answer(const fan_value_t *x, float *y, char *text)
{
    const ptrdiff_t label = fan_predict(&answers, x);
    fan_scores(&answers, x, y);
    fan_copy_label(&answers, label, text);
    return (int)answers.n;
}
#else
int answer(const fan_value_t *x, float *y, char *text);
int answer(const fan_value_t *x, float *y, char *text)
{
    (void)text;
    fan_predict(&answers, x, y);
    return (int)answers.n;
}
#endif

#ifdef __cplusplus
}
#endif
