/* Lorenz's equations by Euler's steps: the squared last state and its gradient by the first, over stored states. */

double lorenz(const double *start, long steps, double h, double *states, double *g) {
    double x = start[0], y = start[1], z = start[2];
    for (long t = 0; t < steps; t++) {
        states[3 * t] = x;
        states[3 * t + 1] = y;
        states[3 * t + 2] = z;
        double dx = 10 * (y - x), dy = x * (28 - z) - y, dz = x * y - 8.0 / 3 * z;
        x += h * dx;
        y += h * dy;
        z += h * dz;
    }
    double a = 2 * x, b = 2 * y, c = 2 * z;
    for (long t = steps - 1; t >= 0; t--) {
        const double *s = states + 3 * t;
        double da = h * a, db = h * b, dc = h * c;
        a += -10 * da + (28 - s[2]) * db + s[1] * dc;
        b += 10 * da - db + s[0] * dc;
        c -= s[0] * db + 8.0 / 3 * dc;
    }
    g[0] = a;
    g[1] = b;
    g[2] = c;
    return x * x + y * y + z * z;
}
