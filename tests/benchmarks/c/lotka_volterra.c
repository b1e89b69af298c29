/* A fit's loss and gradients through Runge-Kutta steps: reverse mode by hand, over stored states. */

static void rate(const double *p, double u, double v, double *du, double *dv) {
    *du = p[0] * u - p[1] * u * v;
    *dv = p[3] * u * v - p[2] * v;
}

/* Adds to (gu, gv) and g what cotangents (cu, cv) of the rate at (u, v) pull back to. */
static void pull(const double *p, double u, double v, double cu, double cv, double *gu, double *gv, double *g) {
    *gu += cu * (p[0] - p[1] * v) + cv * p[3] * v;
    *gv += cv * (p[3] * u - p[2]) - cu * p[1] * u;
    g[0] += cu * u;
    g[1] -= cu * u * v;
    g[2] -= cv * v;
    g[3] += cv * u * v;
}

double lotka_volterra(const double *p, double u, double v, const double *seen, long steps, double h, double *states,
                      double *g) {
    const double part[4] = {h / 6, h / 3, h / 3, h / 6}, far[4] = {0, h / 2, h / 2, h};
    double loss = 0;
    states[0] = u;
    states[1] = v;
    for (long t = 0; t < steps; t++) {
        double ku = 0, kv = 0, nu = u, nv = v;
        for (int s = 0; s < 4; s++) {
            double a, b;
            rate(p, u + far[s] * ku, v + far[s] * kv, &a, &b);
            ku = a;
            kv = b;
            nu += part[s] * ku;
            nv += part[s] * kv;
        }
        states[2 * t + 2] = u = nu;
        states[2 * t + 3] = v = nv;
        loss += (u - seen[t]) * (u - seen[t]) + (v - seen[steps + t]) * (v - seen[steps + t]);
    }
    for (int k = 0; k < 4; k++) g[k] = 0;
    double cu = 0, cv = 0;
    for (long t = steps - 1; t >= 0; t--) {
        cu += 2 * (states[2 * t + 2] - seen[t]) / steps;
        cv += 2 * (states[2 * t + 3] - seen[steps + t]) / steps;
        double at_u[4], at_v[4], ku = 0, kv = 0;
        for (int s = 0; s < 4; s++) {
            at_u[s] = states[2 * t] + far[s] * ku;
            at_v[s] = states[2 * t + 1] + far[s] * kv;
            rate(p, at_u[s], at_v[s], &ku, &kv);
        }
        double gu = cu, gv = cv, down_u = 0, down_v = 0;
        for (int s = 3; s >= 0; s--) {
            double su = 0, sv = 0;
            pull(p, at_u[s], at_v[s], part[s] * cu + down_u, part[s] * cv + down_v, &su, &sv, g);
            gu += su;
            gv += sv;
            down_u = far[s] * su;
            down_v = far[s] * sv;
        }
        cu = gu;
        cv = gv;
    }
    return loss / steps;
}
