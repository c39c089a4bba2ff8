/* Turn least-squares scores of classes into probabilities by classes.h alone. */
#include "classes.h"
#include <stdlib.h>

#ifdef __cplusplus
extern "C"
#endif
/* Discriminant scores and their softmax, and the nearest probabilities, of n scores: the map is left in `matrix`,
 * which is G at first. Return 0 if rounding hides what is scattered within classes. */
int
classify(ptrdiff_t n, const real *scores, const real *weights, const real *centre, const real *priors, int shrinks,
         real *matrix, real *constant, real *discriminants, real *posterior, real *nearest)
{
    const size_t size = (size_t)n * sizeof(real);
    real *scratch = (real *)calloc((size_t)(6 * n), sizeof(real));
    const int found = scratch && discriminant(n, weights, centre, priors, shrinks, matrix, constant, scratch);
    memcpy(discriminants, scores, size);
    memcpy(nearest, scores, size);
    if (found) {
        discriminate(n, matrix, constant, discriminants, scratch);
        memcpy(posterior, discriminants, size);
        memset(scratch, 0, size);
        softmax(n, posterior, scratch, 1.0);
        project(n, nearest, scratch + n);
    }
    free(scratch);
    return found;
}
