/* Orders of acts on a full segment; see orders.h. */
#include "tests/harness/step/orders.h"

#include <stdio.h>
#include <string.h>

#include "shm/base/result.h"

static bool same_keys(const struct fact *a, const struct fact *b)
{
        for (uint32_t key = 0; key < scene.key_count; key++)
                if (!scene_fact_equal(&a[key], &b[key], false))
                        return false;
        return true;
}

/* Applies one act in its turn. @got: its answer, or NULL when it was not answered. Return: false
 * when it cannot have been answered that. */
static bool take_turn(struct fact *keys, const struct act *act, const struct result *got)
{
        struct fact *key = &keys[act->key];
        bool there = key->state == FACT_VALUE;

        switch (act->kind) {
        case SET:
                if (got && got->code)
                        return got->code == SB_E_FULL;
                *key = (struct fact){.state = FACT_VALUE, .tag = act->tag, .len = act->len};
                return true;
        case DELETE:
                *key = (struct fact){.state = FACT_NONE};
                return !got || got->code == (there ? 0 : SB_E_NOT_FOUND);
        case GET:
        case HOLD:
                return !got || (got->code == (there ? 0 : SB_E_NOT_FOUND) &&
                                       scene_fact_equal(&got->seen[act->key], key, false));
        case SCAN:
                return !got || (!got->code && same_keys(got->seen, keys));
        case CAS:
                __builtin_trap(); /* a CAS needs revisions */
        default:
                return true;
        }
}

/* @effect: whether act @act takes effect, after @done of the others' acts. */
static bool order_fits(
        uint32_t act, uint32_t done, bool effect, bool resumed, const struct fact *facts)
{
        const struct step_scenario *scenario = trial.scenario;
        struct fact keys[SCENE_KEYS];
        bool fits = true;
        uint32_t i;

        memcpy(keys, trial.begin, sizeof(keys));
        for (i = 0; i < act; i++)
                fits = fits && take_turn(keys, &scenario->operation[i], &trial.operation[i]);
        for (i = 0; i <= trial.others_count; i++) {
                if (i == done && act < trial.operation_count && effect)
                        fits = fits && take_turn(keys, &scenario->operation[act],
                                               resumed ? &trial.operation[act] : NULL);
                if (i < trial.others_count)
                        fits = fits && take_turn(keys, &scenario->others[i], &trial.others[i]);
        }
        for (i = act + 1; i < trial.operation_count && resumed; i++)
                fits = fits && take_turn(keys, &scenario->operation[i], &trial.operation[i]);
        return fits && same_keys(keys, facts);
}

bool orders_fit(bool resumed, const struct fact facts[SCENE_KEYS])
{
        uint32_t act = resumed ? 0 : trial.operation_done;

        for (; act <= (resumed ? trial.operation_count : trial.operation_done); act++)
                for (uint32_t done = 0; done <= trial.others_count; done++)
                        if (order_fits(act, done, true, resumed, facts) ||
                                (!resumed && order_fits(act, done, false, false, facts)))
                                return true;
        return false;
}

void orders_fail(bool resumed, const struct fact facts[SCENE_KEYS], const char *what)
{
        char text[400];
        int len = 0;

        for (uint32_t i = 0; i < (resumed ? trial.operation_count : trial.operation_done); i++)
                len += snprintf(
                        text + len, sizeof(text) - (size_t)len, " %d", trial.operation[i].code);
        len += snprintf(text + len, sizeof(text) - (size_t)len, "; others:");
        for (uint32_t i = 0; i < trial.others_count; i++)
                len += snprintf(
                        text + len, sizeof(text) - (size_t)len, " %d", trial.others[i].code);
        for (uint32_t key = 0; key < scene.key_count; key++)
                len += snprintf(text + len, sizeof(text) - (size_t)len, "; key %u %s%u", key,
                        facts[key].state == FACT_VALUE ? "" : "not ", facts[key].tag);
        trial_fail("%s, answers and keys fit no order:%s", what, text);
}
