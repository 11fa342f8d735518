/* frames_x86.h: the operations whose instructions AVX2 and AVX-512 name alike.
 *
 * The file that includes it defines MM(name), which is the intrinsic of that name, TARGET, INLINE,
 * and the types vec, ivec, and doubles.
 */
INLINE vec vec_max(vec a, vec b)
{
    return MM(max_ps)(a, b);
}

INLINE vec vec_min(vec a, vec b)
{
    return MM(min_ps)(a, b);
}

INLINE vec vec_sqrt(vec value)
{
    return MM(sqrt_ps)(value);
}

INLINE vec vec_of_ints(ivec value)
{
    return __builtin_convertvector(value, vec);
}

INLINE vec vec_load(const float *from)
{
    return MM(loadu_ps)(from);
}

INLINE void vec_store(float *to, vec value)
{
    MM(storeu_ps)(to, value);
}

INLINE void transpose4(const vec *x, vec *y)
{
    const doubles low01 = MM(castps_pd)(MM(unpacklo_ps)(x[0], x[1]));
    const doubles low23 = MM(castps_pd)(MM(unpacklo_ps)(x[2], x[3]));
    const doubles high01 = MM(castps_pd)(MM(unpackhi_ps)(x[0], x[1]));
    const doubles high23 = MM(castps_pd)(MM(unpackhi_ps)(x[2], x[3]));
    y[0] = MM(castpd_ps)(MM(unpacklo_pd)(low01, low23));
    y[1] = MM(castpd_ps)(MM(unpackhi_pd)(low01, low23));
    y[2] = MM(castpd_ps)(MM(unpacklo_pd)(high01, high23));
    y[3] = MM(castpd_ps)(MM(unpackhi_pd)(high01, high23));
}
