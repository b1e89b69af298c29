/* An LSTM's loss, the mean square of its last output, and gradients: backpropagation through time by hand. */
#include <math.h>
#include <string.h>

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

/* c += a b, a of m by k, b of k by n */
static void add_product(int m, int k, int n, const float *a, const float *b, float *c) {
    for (int i = 0; i < m; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[i * k + l] * b[l * n + j];
}

/* c += a' b, a of k by m, b of k by n */
static void add_transposed(int m, int k, int n, const float *a, const float *b, float *c) {
    for (int l = 0; l < k; l++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) c[i * n + j] += a[l * m + i] * b[l * n + j];
}

/* memory: states h and c of steps + 1 each, gates of steps, one cotangent of gates, of h and of c, the transpose of w */
float lstm(int steps, int batch, int inputs, int units, const float *x, const float *u, const float *w, const float *bias,
           float *memory, float *gu, float *gw, float *gb) {
    int n = 4 * units, size = batch * units;
    float *h = memory, *c = h + (steps + 1) * size, *gates = c + (steps + 1) * size, *dg = gates + steps * batch * n;
    float *dh = dg + batch * n, *dc = dh + size, *turned = dc + size;
    memset(h, 0, size * sizeof(float));
    memset(c, 0, size * sizeof(float));
    for (int t = 0; t < steps; t++) {
        float *g = gates + t * batch * n, *old = c + t * size, *new = old + size, *out = h + (t + 1) * size;
        for (int i = 0; i < batch; i++) memcpy(g + i * n, bias, n * sizeof(float));
        add_product(batch, inputs, n, x + t * batch * inputs, u, g);
        add_product(batch, units, n, h + t * size, w, g);
        for (int i = 0; i < batch; i++)
            for (int j = 0; j < units; j++) {
                float *at = g + i * n + j;
                at[0] = sigmoid(at[0]);
                at[units] = sigmoid(at[units]);
                at[2 * units] = sigmoid(at[2 * units]);
                at[3 * units] = tanhf(at[3 * units]);
                new[i * units + j] = at[0] * old[i * units + j] + at[units] * at[3 * units];
                out[i * units + j] = at[2 * units] * tanhf(new[i * units + j]);
            }
    }
    float loss = 0;
    for (int i = 0; i < size; i++) {
        float last = h[steps * size + i];
        loss += last * last;
        dh[i] = 2 * last / size;
        dc[i] = 0;
    }
    for (int k = 0; k < units; k++)
        for (int j = 0; j < n; j++) turned[j * units + k] = w[k * n + j];
    memset(gu, 0, inputs * n * sizeof(float));
    memset(gw, 0, units * n * sizeof(float));
    memset(gb, 0, n * sizeof(float));
    for (int t = steps - 1; t >= 0; t--) {
        const float *g = gates + t * batch * n, *old = c + t * size, *new = old + size;
        for (int i = 0; i < batch; i++)
            for (int j = 0; j < units; j++) {
                const float *at = g + i * n + j;
                float *to = dg + i * n + j;
                int k = i * units + j;
                float z = tanhf(new[k]), d = dc[k] + dh[k] * at[2 * units] * (1 - z * z);
                to[0] = d * old[k] * at[0] * (1 - at[0]);
                to[units] = d * at[3 * units] * at[units] * (1 - at[units]);
                to[2 * units] = dh[k] * z * at[2 * units] * (1 - at[2 * units]);
                to[3 * units] = d * at[units] * (1 - at[3 * units] * at[3 * units]);
                dc[k] = d * at[0];
            }
        for (int i = 0; i < batch; i++)
            for (int j = 0; j < n; j++) gb[j] += dg[i * n + j];
        add_transposed(inputs, batch, n, x + t * batch * inputs, dg, gu);
        add_transposed(units, batch, n, h + t * size, dg, gw);
        memset(dh, 0, size * sizeof(float));
        add_product(batch, n, units, dg, turned, dh);
    }
    return loss / size;
}
