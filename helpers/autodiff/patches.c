/* Patches of images and back, for planes that lie in memory without gaps. T is the type of a number.
 *
 * image (planes, H, W), patches (planes, h, w, P, Q): the pixel (i, j) of the window at position
 * (p, q) is the image's pixel (i + s p, j + s q). */

#define EACH_ROW                                                         \
    for (long k = 0; k < planes; k++)                                    \
        for (long i = 0; i < h; i++)                                     \
            for (long j = 0; j < w; j++)                                 \
                for (long p = 0; p < P; p++, patches += Q)

#define PIXELS (image + (k * H + i + s * p) * W + j)

void unfold(long planes, long H, long W, long h, long w, long P, long Q, long s,
            const T *restrict image, T *restrict patches) {
    EACH_ROW {
        const T *row = PIXELS;
        if (s == 1) for (long q = 0; q < Q; q++) patches[q] = row[q];
        else for (long q = 0; q < Q; q++) patches[q] = row[s * q];
    }
}

void fold(long planes, long H, long W, long h, long w, long P, long Q, long s,
          T *restrict image, const T *restrict patches) {
    for (long n = 0; n < planes * H * W; n++) image[n] = 0;
    EACH_ROW {
        T *row = PIXELS;
        if (s == 1) for (long q = 0; q < Q; q++) row[q] += patches[q];
        else for (long q = 0; q < Q; q++) row[s * q] += patches[q];
    }
}
