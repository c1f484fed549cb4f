/*
 * The configuration: what the operator asked for on the command line, checked as a whole.
 *
 * Always true: nothing on disk or in memory is made before the whole configuration was found valid.
 */
#ifndef SB_CONFIG_H
#define SB_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "ring/attach/place.h"
#include "agentd/wal/wal-backend.h"
#include "shm/layout/superblock.h"
#include "shm/notify/durable.h"

enum sb_config_hugepages { SB_HUGEPAGES_AUTO, SB_HUGEPAGES_REQUIRE, SB_HUGEPAGES_OFF };

/* What a bus does that cannot write its log. */
enum sb_config_trouble { SB_TROUBLE_CONTINUE, SB_TROUBLE_READ_ONLY, SB_TROUBLE_STOP };

#define SB_EXIT_FAILURE 1
#define SB_EXIT_USAGE   2

struct sb_config {
        struct sb_place place;
        uint64_t size; /* bytes, as asked for */
        uint32_t clients;
        enum sb_log_mode mode;
        enum sb_wal_backend io;
        uint32_t flush_ms;
        uint64_t flush_bytes; /* of changes in a batch, about */
        uint64_t checkpoint_bytes;
        uint64_t checkpoint_ns; /* 0: not by time */
        enum sb_config_trouble trouble;
        uint64_t recover_to;      /* a cut; 0: the last one */
        uint64_t history_bytes;   /* that history rules may keep; UINT64_MAX: a quarter of the
                                     segment; 0: any number */
        uint64_t snapshot_age_ns; /* snapshots held longer are taken away; 0: none */
        enum sb_config_hugepages hugepages;
};

/**
 * sb_config_parse() - read the command line, and print what is wrong with it
 * @ret_exit:   the exit status, when no bus is to be run
 *
 * Return: true: run the bus; false: everything was printed, exit with *ret_exit.
 */
bool sb_config_parse(int argc, char **argv, struct sb_config *ret, int *ret_exit);

/* Lay out a segment for @config with pages of @page_size bytes. Return: 0; -ENOSPC: ret->size is
 * the least size that works; -EINVAL. */
int sb_config_fit(const struct sb_config *config, uint64_t page_size, struct sb_geometry *ret);

/* @bytes as an argument of --size, in the largest unit that gives a whole number. */
const char *sb_config_size_words(uint64_t bytes, char text[static 32]);

#endif
