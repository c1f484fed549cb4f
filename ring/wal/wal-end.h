/*
 * How a log ends, as its reader finds it (wal-reader.h, which says what the words mean).
 */
#ifndef SB_WAL_END_H
#define SB_WAL_END_H

#include <stdint.h>

enum sb_wal_ending {
        SB_WAL_CLEAN,
        SB_WAL_TORN,
        SB_WAL_DAMAGED,
        SB_WAL_OTHER_VERSION, /* of the format: `version` against SB_WAL_VERSION; nothing is read */
        SB_WAL_OTHER_ENDIAN,  /* written on a machine of the other byte order; nothing is read */
        SB_WAL_OTHER_BUS,     /* nothing is read */
        SB_WAL_NO_FILE, /* what has the name of `file` is `what`, and no file; nothing is read */
};

/* How the log ends. */
struct sb_wal_end {
        enum sb_wal_ending ending;
        uint64_t first_sequence; /* of the first batch that a visit hands out */
        uint64_t first_after;    /* the cut before that batch: what a checkpoint must reach */
        uint64_t sequence, cut; /* of the last one; without any: of the one before the first file */
        uint64_t file, offset;  /* where the bad place is, or the torn batch begins; file 0: none */
        uint64_t dropped;       /* bytes of the torn batch, as far as they can be seen */
        const char *what;       /* of damage: a sentence; of what is no file: what it is; static */
        uint64_t passed; /* damaged batches that cost nothing: they have pieces of a copy alone */
        uint64_t passed_file, passed_offset; /* where the first one of them is bad */
        /* A file of this log that has the number renamed_to, and by its header renamed_from, which
         * no file has: it was renamed. renamed_from 0: there is none. */
        uint64_t renamed_from, renamed_to;
        uint32_t version;
        unsigned char id[16]; /* of the bus that the log is of */
        uint64_t hash_seed;
};

#endif
