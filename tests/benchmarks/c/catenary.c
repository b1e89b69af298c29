/* Gradient descent on the heights of a hanging rope: derivative by hand. */
#include <math.h>

#define POINTS 50

void catenary(float *y, const float *free_points, long steps, float rate, float length) {
    const float h2 = 1.0f / ((POINTS - 1) * (POINTS - 1));
    float piece[POINTS], slope[POINTS];
    for (long t = 0; t < steps; t++) {
        float sum = 0;
        for (int i = 0; i < POINTS - 1; i++) {
            float d = y[i + 1] - y[i];
            piece[i] = sqrtf(h2 + d * d);
            sum += piece[i];
        }
        float pull = 2 * (sum - length);
        for (int i = 0; i < POINTS; i++) slope[i] = 0;
        for (int i = 0; i < POINTS - 1; i++) {
            float g = (pull + (y[i + 1] + y[i]) / 2) * (y[i + 1] - y[i]) / piece[i];
            slope[i] += piece[i] / 2 - g;
            slope[i + 1] += piece[i] / 2 + g;
        }
        for (int i = 0; i < POINTS; i++) y[i] -= rate * free_points[i] * slope[i];
    }
}
