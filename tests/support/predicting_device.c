/* A device that only predicts, by the header fan.h: what tests call. */
#include "fan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Predict rows: scores and the numbers of labels, or targets, or a value each. */
void all(const float *x, int rows, float *y, int *labels);
void all(const float *x, int rows, float *y, int *labels)
{
    for (; rows-- > 0; x += FAN_N_FEATURES) {
#if defined(LABELS)
        fan_scores(x, y);
        *labels++ = fan_predict(x);
        y += FAN_N_LABELS;
#elif defined(TARGETS)
        fan_predict(x, y);
        y += FAN_N_TARGETS;
#else
        *y++ = fan_predict(x);
#endif
    }
    (void)labels;
}

const char *const *texts(void);
const char *const *texts(void)
{
#if defined(LABELS)
    return fan_labels;
#elif defined(TARGETS)
    return fan_targets;
#else
    static const char *const none[] = {"0"};
    return none;
#endif
}

#ifdef __cplusplus
}
#endif
