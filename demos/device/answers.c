/* A program that only predicts: for each row in the file "line", the number of a label goes to the file "replies".
 *
 * A row is VALUE[M]. The file "ticks" says how long all rows took: ticks of a timer, and rows. */
#include <stdint.h>
#include <stdio.h>
#include MODEL
#include "timer.h"

int main(void)
{
    FILE *line = fopen("line", "rb"), *replies = fopen("replies", "wb"), *told = fopen("ticks", "w");
    unsigned long ticks = 0, rows = 0;
    VALUE x[M];
    if (!line || !replies || !told)
        return 1;
    for (; fread(x, sizeof(x), 1, line) == 1; rows++) {
        const uint32_t start = TIMER;
        const int label = PREDICT(x);
        ticks += TICKS_SINCE(start);
        putc(label, replies);
    }
    fprintf(told, "%lu %lu\n", ticks, rows);
    return 0;
}
