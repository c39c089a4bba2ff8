/* The program of a device: it learns rows, predicts, sends what it has learnt, and takes new weights.
 *
 * The file "line" stands for a serial line or a radio. It holds commands, of which some have a reply in the file
 * "replies". A row is fan_value_t[FAN_N_FEATURES]:
 *
 *     L, text, 0, row        learn a row with the label that has this text
 *     P, row                 predict; the reply is the text of a label, and 0
 *     O                      predict by the rows learnt here alone, until the power is off
 *     S, serial u32          send the sums; the reply is these bytes
 *     W, size u32, bytes     take weights; the reply is a byte, 0 if they are taken
 *
 * The file "flash" stands for flash memory. The file "ticks" says how long rows took, those learnt and those predicted,
 * and solutions: ticks of a timer, and their number.
 */
#include "fan.h"
#include "timer.h"
#include <stdio.h>

#ifndef NUMBER
#define NUMBER 1 /* of this device */
#endif
#define SLOT 4096 /* bytes for weights, twice */
#define UNIT 8    /* bytes that flash memory writes at once */

/* What stays while the power is off. */
static struct {
    fan_learner_t learner;
    union {
        float aligned;
        uint8_t bytes[SLOT];
    } slots[2];
} flash;

static unsigned long ticks_of[3], count_of[3]; /* of rows learnt and predicted, and of solutions */

static int write_flash(void *to, int slot, size_t at, const uint8_t *bytes, size_t size)
{
    (void)to;
    if (bytes)
        memcpy(flash.slots[slot].bytes + at, bytes, size);
    else
        memset(flash.slots[slot].bytes, 0xFF, size);
    return 0;
}

static void send_byte(void *to, uint8_t byte) { putc(byte, (FILE *)to); }

static size_t read_bytes(FILE *line, void *to, size_t size) { return fread(to, 1, size, line); }

static uint32_t read_number(FILE *line)
{
    uint8_t bytes[4] = {0};
    read_bytes(line, bytes, 4);
    return (uint32_t)fan_bits_at(bytes, 4);
}

static void count(int what, uint32_t start)
{
    ticks_of[what] += TICKS_SINCE(start);
    count_of[what]++;
}

static void learn(FILE *line)
{
    fan_value_t row[FAN_N_FEATURES];
    char text[256];
    int size = 0;
    while (size < 255 && (text[size] = (char)getc(line)))
        size++;
    read_bytes(line, row, sizeof(row));
    const ptrdiff_t label = fan_add_label(&flash.learner.labels, text);
    const uint32_t start = TIMER;
    fan_learn(&flash.learner, row, label);
    count(0, start);
}

static void predict(const fan_answers_t *answers, FILE *line, FILE *replies)
{
    fan_value_t row[FAN_N_FEATURES];
    char text[256];
    read_bytes(line, row, sizeof(row));
    const uint32_t start = TIMER;
    const ptrdiff_t label = fan_predict(answers, row);
    count(1, start);
    fan_copy_label(answers, label, text);
    fwrite(text, 1, strlen(text) + 1, replies);
}

static void take(const fan_slots_t *slots, FILE *line, FILE *replies)
{
    static uint8_t bytes[SLOT];
    const uint32_t size = read_number(line);
    putc(size <= SLOT ? fan_take_weights(slots, bytes, read_bytes(line, bytes, size)) : 255, replies);
}

#ifdef SOLVES
static void solve(fan_answers_t *answers)
{
    static float numbers[FAN_MEMORY];
    const uint32_t start = TIMER;
    fan_solve(&flash.learner, numbers, answers);
    count(2, start);
}
#endif

int main(void)
{
    FILE *line = fopen("line", "rb"), *replies = fopen("replies", "wb"), *memory = fopen("flash", "rb");
    const fan_slots_t slots =
        fan_slots_of(flash.slots[0].bytes, flash.slots[1].bytes, SLOT, UNIT, write_flash, NULL);
    if (!line || !replies)
        return 1;
    if (memory)
        read_bytes(memory, &flash, sizeof(flash));
    if (!fan_is_sound(&flash.learner)) /* the first start, damaged memory, or another header */
        fan_begin(&flash.learner);
    fan_answers_t answers = fan_answers_of(fan_answering(&slots));
    for (int command; (command = getc(line)) != EOF;) {
        if (command == 'L')
            learn(line);
        if (command == 'P')
            predict(&answers, line, replies);
        if (command == 'S')
            fan_send(&flash.learner, NUMBER, read_number(line), send_byte, replies);
        if (command == 'W') {
            take(&slots, line, replies);
            answers = fan_answers_of(fan_answering(&slots));
        }
#ifdef SOLVES
        if (command == 'O')
            solve(&answers);
#endif
    }
    FILE *told = fopen("ticks", "w");
    memory = fopen("flash", "wb");
    fan_seal(&flash.learner);
    fwrite(&flash, sizeof(flash), 1, memory);
    for (int what = 0; what < 3; what++)
        fprintf(told, "%lu %lu\n", ticks_of[what], count_of[what]);
    return 0;
}
