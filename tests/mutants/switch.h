/*
 * Many changes in one build: `make mutants` writes each as `SB_CHANGED(number) ? the changed text :
 * the text as it is` into its copy of the tree, and the environment picks one of them, none, or
 * asks which ones a program comes by. No other build has this file.
 */
#ifndef SB_SWITCH_H
#define SB_SWITCH_H

/* The number of the change that is on; 0: none; -1: none, and each that is come by is written down.
 */
extern int sb_switch_now __attribute__((visibility("hidden")));

void sb_switch_reach(int number) __attribute__((visibility("hidden"), cold));

static inline __attribute__((always_inline, unused)) _Bool sb_switch_on(int number)
{
        int now = sb_switch_now;

        if (__builtin_expect(now < 0, 0))
                sb_switch_reach(number);
        return now == number;
}

#define SB_CHANGED(number) __builtin_expect(sb_switch_on(number), 0)

#endif
