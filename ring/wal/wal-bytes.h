/*
 * Words in the log's files: little-endian, and read and written by copying bytes, so that no file
 * needs to be aligned in memory and no struct lies in one.
 */
#ifndef SB_WAL_BYTES_H
#define SB_WAL_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void sb_wal_bytes_put16(unsigned char *to, uint16_t word)
{
        word = htole16(word);
        memcpy(to, &word, sizeof(word));
}
static inline void sb_wal_bytes_put32(unsigned char *to, uint32_t word)
{
        word = htole32(word);
        memcpy(to, &word, sizeof(word));
}
static inline void sb_wal_bytes_put64(unsigned char *to, uint64_t word)
{
        word = htole64(word);
        memcpy(to, &word, sizeof(word));
}
static inline uint16_t sb_wal_bytes_get16(const unsigned char *from)
{
        uint16_t word;

        memcpy(&word, from, sizeof(word));
        return le16toh(word);
}
static inline uint32_t sb_wal_bytes_get32(const unsigned char *from)
{
        uint32_t word;

        memcpy(&word, from, sizeof(word));
        return le32toh(word);
}
static inline uint64_t sb_wal_bytes_get64(const unsigned char *from)
{
        uint64_t word;

        memcpy(&word, from, sizeof(word));
        return le64toh(word);
}

#endif
