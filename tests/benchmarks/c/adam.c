/* One leaf's step of Adam, into other arrays or in place. */
#include <math.h>

void adam(long n, const float *p, const float *g, const float *m, const float *v, float *p_out, float *m_out,
          float *v_out, float b1, float b2, float size, float eps) {
#pragma GCC ivdep
    for (long i = 0; i < n; i++) {
        float mi = b1 * m[i] + (1 - b1) * g[i], vi = b2 * v[i] + (1 - b2) * g[i] * g[i];
        m_out[i] = mi;
        v_out[i] = vi;
        p_out[i] = p[i] - size * mi / (sqrtf(vi) + eps);
    }
}
