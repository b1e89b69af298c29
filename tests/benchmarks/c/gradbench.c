/* gradbench's evals, values and derivatives by hand. A derivative is asked for by memory for it, else it is NULL. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- squares, sums of exponentials, polynomials, minors, a differential equation */

void hello(const double *x, double *square, double *twice) {
    if (twice) *twice = 2 * *x;
    else *square = *x * *x;
}

void lse(long n, const double *x, double *value, double *gradient) {
    double top = x[0], sum = 0;
    for (long i = 1; i < n; i++)
        if (x[i] > top) top = x[i];
    if (!gradient) {
        for (long i = 0; i < n; i++) sum += exp(x[i] - top);
        *value = log(sum) + top;
        return;
    }
    for (long i = 0; i < n; i++) sum += gradient[i] = exp(x[i] - top);
    for (long i = 0; i < n; i++) gradient[i] /= sum;
}

void llsq(long n, long m, const double *x, double *value, double *gradient) {
    double sum = 0;
    if (gradient) memset(gradient, 0, m * sizeof(double));
    for (long i = 0; i < n; i++) {
        double t = -1 + i * 2.0 / (n - 1), fit = 0;
        for (long j = m - 1; j >= 0; j--) fit = fit * t + x[j];
        double left = (t > 0) - (t < 0) - fit;
        sum += left * left;
        if (gradient)
            for (long j = 0; j < m; j++, left *= t) gradient[j] -= left;
    }
    if (value) *value = sum / 2;
}

/* the minor of the rows from `row` on and these columns; to the gradient is added what it weighs in the whole */
static double minor(int n, int row, const int *columns, const double *a, double weight, double *gradient) {
    int left[16], count = n - row;
    double sum = 0, sign = 1;
    if (count == 1) {
        if (gradient) gradient[row * n + columns[0]] += weight;
        return a[row * n + columns[0]];
    }
    memcpy(left, columns + 1, (count - 1) * sizeof(int));
    for (int k = 0; k < count; k++, sign = -sign) {
        int place = row * n + columns[k];
        double part = sign * minor(n, row + 1, left, a, weight * sign * a[place], gradient);
        if (gradient) gradient[place] += weight * part;
        sum += a[place] * part;
        left[k] = columns[k];
    }
    return sum;
}

void det(long n, const double *a, double *value, double *gradient) {
    int columns[16];
    for (int k = 0; k < n; k++) columns[k] = k;
    if (gradient) memset(gradient, 0, n * n * sizeof(double));
    double found = minor(n, 0, columns, a, 1, gradient);
    if (value) *value = found;
}

static void field(long n, const double *x, const double *y, double *z) {
    z[0] = x[0];
    for (long i = 1; i < n; i++) z[i] = x[i] * y[i - 1];
}

static void add(long n, const double *y, double h, const double *k, double *z) {
    for (long i = 0; i < n; i++) z[i] = y[i] + h * k[i];
}

/* the transpose of the field's derivatives by y and x, times d */
static void pull(long n, const double *x, const double *y, const double *d, double *by_y, double *by_x) {
    by_x[0] += d[0];
    for (long i = 1; i < n; i++) by_x[i] += y[i - 1] * d[i];
    for (long i = 1; i < n; i++) by_y[i - 1] = x[i] * d[i];
    by_y[n - 1] = 0;
}

/* memory: of steps + 9 vectors */
void ode(long n, long steps, const double *x, double *memory, double *value, double *gradient) {
    double h = 2.0 / steps, *k1 = memory, *k2 = k1 + n, *k3 = k2 + n, *k4 = k3 + n, *u = k4 + n, *v = u + n, *w = v + n;
    double *a = w + n, *states = a + n;
    memset(states, 0, n * sizeof(double));
    for (long t = 0; t < steps; t++) {
        double *y = gradient ? states + t * n : states, *next = gradient ? y + n : y;
        field(n, x, y, k1);
        add(n, y, h / 2, k1, u);
        field(n, x, u, k2);
        add(n, y, h / 2, k2, u);
        field(n, x, u, k3);
        add(n, y, h, k3, u);
        field(n, x, u, k4);
        for (long i = 0; i < n; i++) next[i] = y[i] + h * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]) / 6;
    }
    if (!gradient) {
        memcpy(value, states, n * sizeof(double));
        return;
    }
    memset(gradient, 0, n * sizeof(double));
    memset(a, 0, n * sizeof(double));
    a[n - 1] = 1;
    for (long t = steps - 1; t >= 0; t--) {
        const double *y = states + t * n;
        double *d2 = k4, *d3 = k3, *d4 = k2;
        field(n, x, y, k1);
        add(n, y, h / 2, k1, u);
        field(n, x, u, k2);
        add(n, y, h / 2, k2, v);
        field(n, x, v, k3);
        add(n, y, h, k3, w);
        for (long i = 0; i < n; i++) k1[i] = h / 6 * a[i];
        pull(n, x, w, k1, d4, gradient);
        for (long i = 0; i < n; i++) k1[i] = h / 3 * a[i] + h * d4[i];
        pull(n, x, v, k1, d3, gradient);
        for (long i = 0; i < n; i++) k1[i] = h / 3 * a[i] + h / 2 * d3[i];
        pull(n, x, u, k1, d2, gradient);
        for (long i = 0; i < n; i++) k1[i] = h / 6 * a[i] + h / 2 * d2[i];
        pull(n, x, y, k1, u, gradient);
        for (long i = 0; i < n; i++) a[i] += d4[i] + d3[i] + d2[i] + u[i];
    }
}

/* --- clusters, mixtures of Gaussians */

/* memory: of k by d + 1 numbers; the result is the cost, or Newton's direction */
void kmeans(long n, long k, long d, const double *points, const double *centroids, double *memory, double *cost,
            double *direction) {
    double sum = 0, *counts = memory + k * d;
    memset(memory, 0, k * (d + 1) * sizeof(double));
    for (long i = 0; i < n; i++) {
        const double *x = points + i * d;
        double least = INFINITY;
        long near = 0;
        for (long j = 0; j < k; j++) {
            double square = 0;
            for (long l = 0; l < d; l++) square += (x[l] - centroids[j * d + l]) * (x[l] - centroids[j * d + l]);
            if (square < least) least = square, near = j;
        }
        sum += least;
        if (direction) {
            counts[near] += 2;
            for (long l = 0; l < d; l++) memory[near * d + l] += 2 * (centroids[near * d + l] - x[l]);
        }
    }
    if (cost) *cost = sum;
    if (direction)
        for (long j = 0; j < k; j++)
            for (long l = 0; l < d; l++) direction[j * d + l] = memory[j * d + l] / counts[j];
}

/* memory: of k (d + 1) + 2 k d numbers; the constant is what depends on no parameter */
void gmm(long n, long k, long d, double m, double gamma, double constant, const double *alpha, const double *mu,
         const double *q, const double *low, const double *x, double *memory, double *value, double *by_alpha,
         double *by_mu, double *by_q, double *by_low) {
    long size = d * (d - 1) / 2;
    double *scales = memory, *inner = scales + k * d, *apart = inner + k, *away = apart + k * d;
    double total = 0, top = -INFINITY, weights = 0, prior = 0, sums = 0;
    for (long i = 0; i < k * d; i++) scales[i] = exp(q[i]), prior += scales[i] * scales[i], sums += q[i];
    for (long i = 0; i < k * size; i++) prior += low[i] * low[i];
    if (by_alpha) {
        memset(by_alpha, 0, k * sizeof(double));
        memset(by_mu, 0, k * d * sizeof(double));
        memset(by_q, 0, k * d * sizeof(double));
        memset(by_low, 0, k * size * sizeof(double));
    }
    for (long i = 0; i < n; i++) {
        double most = -INFINITY, sum = 0;
        for (long c = 0; c < k; c++) {
            double *to = apart + c * d, *far = away + c * d, squares = 0, trace = 0;
            for (long j = 0; j < d; j++) to[j] = x[i * d + j] - mu[c * d + j];
            for (long j = 0; j < d; j++) far[j] = scales[c * d + j] * to[j], trace += q[c * d + j];
            const double *l = low + c * size;
            for (long j = 0; j < d; j++) /* column by column */
                for (long r = j + 1; r < d; r++) far[r] += *l++ * to[j];
            for (long j = 0; j < d; j++) squares += far[j] * far[j];
            inner[c] = alpha[c] + trace - 0.5 * squares;
            if (inner[c] > most) most = inner[c];
        }
        for (long c = 0; c < k; c++) sum += inner[c] = exp(inner[c] - most);
        total += log(sum) + most;
        for (long c = 0; by_alpha && c < k; c++) {
            double share = inner[c] / sum, *to = apart + c * d, *far = away + c * d;
            const double *l = low + c * size;
            double *g = by_low + c * size;
            by_alpha[c] += share;
            for (long j = 0; j < d; j++) {
                double back = scales[c * d + j] * far[j];
                by_q[c * d + j] += share * (1 - back * to[j]);
                for (long r = j + 1; r < d; r++) back += *l++ * far[r], *g++ -= share * far[r] * to[j];
                by_mu[c * d + j] += share * back;
            }
        }
    }
    for (long c = 0; c < k; c++)
        if (alpha[c] > top) top = alpha[c];
    for (long c = 0; c < k; c++) weights += exp(alpha[c] - top);
    if (value) *value = total - n * (log(weights) + top) - 0.5 * gamma * gamma * prior + m * sums + constant;
    if (!by_alpha) return;
    for (long c = 0; c < k; c++) by_alpha[c] -= n * exp(alpha[c] - top) / weights;
    for (long i = 0; i < k * d; i++) by_q[i] += m - gamma * gamma * scales[i] * scales[i];
    for (long i = 0; i < k * size; i++) by_low[i] -= gamma * gamma * low[i];
}

/* --- bundle adjustment */

static void cross(const double *a, const double *b, double *c) {
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

static double dot(const double *a, const double *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* the error of one observation, and its derivatives by the camera's 11 numbers, the point and the weight */
static void observe(const double *camera, const double *point, double weight, const double *feature, double *error,
                    double *block) {
    const double *center = camera + 3, *origin = camera + 7, *radial = camera + 9;
    double focal = camera[6], angle = sqrt(dot(camera, camera)), c = cos(angle), s = sin(angle);
    double axis[3], x[3], turned[3], seen[3], flat[2];
    for (int i = 0; i < 3; i++) axis[i] = camera[i] / angle, x[i] = point[i] - center[i];
    cross(axis, x, turned);
    double along = dot(axis, x);
    for (int i = 0; i < 3; i++) seen[i] = x[i] * c + turned[i] * s + axis[i] * along * (1 - c);
    for (int i = 0; i < 2; i++) flat[i] = seen[i] / seen[2];
    double r = flat[0] * flat[0] + flat[1] * flat[1], bend = 1 + radial[0] * r + radial[1] * r * r;
    double slope = radial[0] + 2 * radial[1] * r, left[2];
    for (int i = 0; i < 2; i++) left[i] = flat[i] * bend * focal + origin[i] - feature[i];
    if (error)
        for (int i = 0; i < 2; i++) error[i] = weight * left[i];
    if (!block) return;
    for (int k = 0; k < 6; k++) {
        double d[3], da[3], moved[3];
        if (k < 3) {
            for (int i = 0; i < 3; i++) da[i] = ((i == k) - axis[i] * axis[k]) / angle;
            cross(da, x, moved);
            double dalong = dot(da, x);
            for (int i = 0; i < 3; i++)
                d[i] = axis[k] * (turned[i] * c - x[i] * s + axis[i] * along * s) + moved[i] * s +
                       (da[i] * along + axis[i] * dalong) * (1 - c);
        } else {
            double e[3] = {k == 3, k == 4, k == 5};
            cross(axis, e, moved);
            for (int i = 0; i < 3; i++) d[i] = e[i] * c + moved[i] * s + axis[i] * axis[k - 3] * (1 - c);
        }
        double df[2] = {(d[0] - flat[0] * d[2]) / seen[2], (d[1] - flat[1] * d[2]) / seen[2]};
        double dbend = slope * 2 * (flat[0] * df[0] + flat[1] * df[1]);
        for (int i = 0; i < 2; i++) {
            double part = weight * focal * (df[i] * bend + flat[i] * dbend);
            if (k < 3) block[15 * i + k] = part;
            else block[15 * i + k] = -part, block[15 * i + k + 8] = part; /* the center, and the point */
        }
    }
    for (int i = 0; i < 2; i++) {
        double *row = block + 15 * i;
        row[6] = weight * flat[i] * bend;
        row[7] = weight * (i == 0), row[8] = weight * (i == 1);
        row[9] = weight * focal * flat[i] * r, row[10] = weight * focal * flat[i] * r * r;
        row[14] = left[i];
    }
}

void ba(long n, long m, long p, const double *cameras, const double *points, const double *weights,
        const double *features, double *errors, double *blocks, double *of_weights) {
    for (long i = 0; i < p; i++) {
        observe(cameras + 11 * (i % n), points + 3 * (i % m), weights[i], features + 2 * i, errors ? errors + 2 * i : NULL,
                blocks ? blocks + 30 * i : NULL);
        of_weights[i] = blocks ? -2 * weights[i] : 1 - weights[i] * weights[i];
    }
}

/* --- a recurrent network of gates without products of matrices */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

/* memory: for each of the steps and layers 8 vectors, for each step two more, and behind them 2 for each layer, and 2 */
void lstm(long steps, long layers, long b, const double *main, const double *extra, const double *state,
          const double *sequence, double *memory, double *value, double *gradient) {
    long size = 8 * b, stride = layers * size + 2 * b;
    double sum = 0;
    for (long t = 0; t < steps; t++) {
        const double *x = sequence + t * b, *target = x + b;
        double *now = memory + t * stride, *guess = now + layers * size, total = 2;
        for (long l = 0; l < layers; l++) { /* value, hidden, old cell, four gates, tanh of the cell */
            double *v = now + l * size, *hidden = v + b, *cell = hidden + b, *gates = cell + b, *bent = gates + 4 * b;
            const double *weight = main + 2 * l * 4 * b, *bias = weight + 4 * b;
            const double *before = t ? memory + (t - 1) * stride + l * size : NULL;
            for (long j = 0; j < b; j++) {
                v[j] = l ? now[(l - 1) * size + 5 * b + j] * now[(l - 1) * size + 7 * b + j] : x[j] * extra[j];
                hidden[j] = t ? before[5 * b + j] * before[7 * b + j] : state[2 * l * b + j];
                cell[j] = t ? before[2 * b + j] * before[3 * b + j] + before[4 * b + j] * before[6 * b + j]
                            : state[(2 * l + 1) * b + j];
                gates[j] = sigmoid(v[j] * weight[j] + bias[j]);
                gates[b + j] = sigmoid(hidden[j] * weight[b + j] + bias[b + j]);
                gates[2 * b + j] = sigmoid(v[j] * weight[2 * b + j] + bias[2 * b + j]);
                gates[3 * b + j] = tanh(hidden[j] * weight[3 * b + j] + bias[3 * b + j]);
                bent[j] = tanh(cell[j] * gates[j] + gates[b + j] * gates[3 * b + j]);
            }
        }
        const double *last = now + (layers - 1) * size;
        for (long j = 0; j < b; j++) {
            guess[j] = last[5 * b + j] * last[7 * b + j] * extra[b + j] + extra[2 * b + j];
            total += guess[b + j] = exp(guess[j]);
        }
        for (long j = 0; j < b; j++) {
            sum += target[j] * (guess[j] - log(total));
            guess[b + j] /= total;
        }
    }
    double scale = -1.0 / (steps * b);
    if (value) *value = sum * scale;
    if (!gradient) return;
    double *by_extra = gradient + layers * 8 * b, *dh = memory + steps * stride, *dc = dh + layers * b, *dv = dc + layers * b;
    memset(gradient, 0, (layers * 8 + 3) * b * sizeof(double));
    memset(dh, 0, 2 * layers * b * sizeof(double));
    for (long t = steps - 1; t >= 0; t--) {
        const double *x = sequence + t * b, *target = x + b, *now = memory + t * stride, *guess = now + layers * size;
        const double *last = now + (layers - 1) * size;
        double all = 0;
        for (long j = 0; j < b; j++) all += target[j];
        for (long j = 0; j < b; j++) {
            double d = scale * (target[j] - all * guess[b + j]);
            by_extra[b + j] += d * last[5 * b + j] * last[7 * b + j];
            by_extra[2 * b + j] += d;
            dv[j] = d * extra[b + j];
        }
        for (long l = layers - 1; l >= 0; l--) {
            const double *v = now + l * size, *hidden = v + b, *cell = hidden + b, *gates = cell + b, *bent = gates + 4 * b;
            const double *weight = main + 2 * l * 4 * b;
            double *by_weight = gradient + 2 * l * 4 * b, *by_bias = by_weight + 4 * b;
            for (long j = 0; j < b; j++) {
                double out = dv[j] + dh[l * b + j], forget = gates[j], into = gates[b + j], o = gates[2 * b + j];
                double change = gates[3 * b + j], d = dc[l * b + j] + out * o * (1 - bent[j] * bent[j]);
                double df = d * cell[j] * forget * (1 - forget), di = d * change * into * (1 - into);
                double dout = out * bent[j] * o * (1 - o), dg = d * into * (1 - change * change);
                dc[l * b + j] = d * forget;
                by_weight[j] += df * v[j], by_bias[j] += df;
                by_weight[b + j] += di * hidden[j], by_bias[b + j] += di;
                by_weight[2 * b + j] += dout * v[j], by_bias[2 * b + j] += dout;
                by_weight[3 * b + j] += dg * hidden[j], by_bias[3 * b + j] += dg;
                dh[l * b + j] = di * weight[b + j] + dg * weight[3 * b + j];
                dv[j] = df * weight[j] + dout * weight[2 * b + j];
            }
        }
        for (long j = 0; j < b; j++) by_extra[j] += dv[j] * x[j];
    }
}
