/*
 * Acts about units in a row, and the time that a write waits for memory; see scene.h.
 *
 * APART writes a version and then takes what is left of its unit, and THIN gives all that back:
 * so each unit holds a version or two and nothing else, as it does behind a peak.
 */
#include <string.h>

#include "libclient/statebus.h"
#include "shm/base/result.h"
#include "shm/base/word.h"
#include "shm/layout/record.h"
#include "shm/memory/slab.h"
#include "shm/memory/unit.h"
#include "tests/harness/step/scene.h"
#include "tests/harness/step/sleep.h"
#include "tests/harness/step/story.h"

#define LARGE_WAIT_NS 400000000u

int scene_sleep(const struct timespec *time, struct timespec *rest)
{
        (void)rest;
        scene.slept_ns += (uint64_t)time->tv_nsec;
        return 0;
}

/* The newest version of the key, or NULL. */
static struct sb_version *rows_newest(struct scene *scene, uint32_t key)
{
        const struct sb_segment *segment = &scene->segment;
        uint32_t buckets = segment->geometry.bucket_count;

        for (uint32_t i = 0; i < buckets * SB_BUCKET_CELLS; i++) {
                /* Relaxed: no other process is at work. */
                uint64_t word = sb_load_relaxed(
                        &segment->buckets[i / SB_BUCKET_CELLS].cell[i % SB_BUCKET_CELLS]);
                struct sb_version *version = sb_version_at(segment, word & SB_OFFSET_MASK);

                if (version && SB_SHAPE_KEY_LEN(version->shape) == scene_key(key).len &&
                        memcmp(version->bytes, scene_key(key).data, scene_key(key).len) == 0)
                        return version;
        }
        return NULL;
}

/* Takes the blocks that are left beside the key's newest version, and @more units. */
static void rows_crowd(
        struct scene *scene, uint32_t actor, uint32_t key, uint32_t more, struct result *ret)
{
        struct sb_handle *handle = scene_handle(scene, actor);
        const struct sb_version *version = rows_newest(scene, key);
        uint32_t unit = sb_unit_of(&scene->segment, sb_offset_of(&scene->segment, version));
        uint64_t at;

        while (!ret->code && scene->crowd_count < SCENE_CROWD) {
                ret->code = sb_slab_take(
                        handle, SB_UNIT_VERSIONS, sb_version_size(version->shape), 0, &at);
                if (ret->code)
                        break;
                if (sb_unit_of(&scene->segment, at) != unit) {
                        if (!more--) {
                                sb_slab_give_back(handle, at);
                                break;
                        }
                        unit = sb_unit_of(&scene->segment, at);
                }
                scene->crowd[scene->crowd_count++] = at;
        }
        sb_slab_settle(handle);
}

static void rows_apart(struct scene *scene, const struct act *act, struct result *ret)
{
        struct act set = *act;

        set.kind = act->len ? SET : DELETE;
        set.len = act->len > scene_key(act->key).len
                          ? (uint16_t)(act->len - scene_key(act->key).len)
                          : 0;
        set.expect = ANY;
        scene_do(scene, &set, ret);
        if (!ret->code)
                rows_crowd(scene, act->actor, act->key, act->expect, ret);
        if (scene->crowd_count == SCENE_CROWD)
                ret->code = -1;
}

static void rows_thin(struct scene *scene, const struct act *act)
{
        struct sb_handle *handle = scene_handle(scene, act->actor);

        while (scene->crowd_count)
                sb_slab_give_back(handle, scene->crowd[--scene->crowd_count]);
        sb_slab_release_all(handle);
}

bool scene_other_is_pinned(struct scene *scene, uint32_t actor)
{
        for (uint32_t i = 0; i < SCENE_PEERS; i++)
                if (i != actor && scene->attached[i] &&
                        /* Relaxed: no other process is at work. */
                        sb_load_relaxed(
                                &sb_record_at(&scene->segment, scene_handle(scene, i)->slot)->pin))
                        return true;
        return false;
}

static void rows_large(struct scene *scene, const struct act *act, struct result *ret)
{
        struct sb_bus *bus = &scene->bus[act->actor];
        struct sb_bytes key = scene_key(act->key), value = {scene_value(act->tag), act->len};
        struct sb_write how = {
                .size = sizeof(how), .deadline_ns = scene_time(scene) + LARGE_WAIT_NS};
        struct sb_guard guard = {0};
        uint64_t rev;

        ret->code = sb_set(bus, key, value, &how, &rev);
        if (ret->code == SB_E_FULL && scene_other_is_pinned(scene, act->actor)) {
                ret->code = 0;
                return;
        }
        if (!ret->code)
                ret->code = sb_get(bus, key, &guard);
        if (!ret->code && (guard.rev != rev || guard.value.len != value.len ||
                                  memcmp(guard.value.data, value.data, value.len) != 0))
                ret->code = -1;
        sb_guard_release(&guard);
        if (!ret->code)
                ret->code = sb_delete(bus, key, SB_ANY_REV, &how, &rev);
}

bool scene_rows(struct scene *scene, const struct act *act, struct result *ret)
{
        if (act->kind == APART)
                rows_apart(scene, act, ret);
        else if (act->kind == THIN)
                rows_thin(scene, act);
        else if (act->kind == LARGE)
                rows_large(scene, act, ret);
        else
                return false;
        if (ret->code)
                trial_fail("%s: %d", scene_act_text(act), ret->code);
        return true;
}
