/*
 * Geometry: how the areas of a segment share its bytes (superblock.h has the map). It is made from
 * a wish when a bus is made, and kept in the superblock.
 *
 * Always true: nothing about a geometry is believed because it stands in a segment. Every process
 * that opens one computes again what the geometry must be.
 */
#ifndef SB_LAYOUT_GEOMETRY_H
#define SB_LAYOUT_GEOMETRY_H

#include "shm/layout/superblock.h"

/* What a geometry is made from. Zero fields take the default in brackets. */
struct sb_geometry_wish {
        uint64_t size;           /* bytes of the segment */
        uint32_t clients;        /* besides the engine */
        uint32_t record_stride;  /* alignment of client records [none: odd pairs of lines] */
        uint32_t unit_size;      /* power of two [size / 4096, within 4 KiB .. 1 MiB] */
        uint32_t bucket_count;   /* power of two [one for each 800 bytes] */
        uint32_t guard_inline;   /* guard words in the record [64] */
        uint32_t snapshot_count; /* announcement words in the record [32] */
        uint32_t magazine_count; /* entries of a magazine [by size and clients]; SB_MAGAZINE_NONE: 0
                                  */
        uint32_t times_count;    /* entries a level [by size, 4 .. 1024] */
        uint32_t mark_count;     /* [by size, 4 .. 64] */
        uint32_t units_min;      /* [4] */
};

/* Fewer units are not shared out: a client may keep all of them. */
#define SB_UNITS_SHARED 16u

#define SB_MAGAZINE_NONE UINT32_MAX

/* Size classes are 16 bytes apart below 128, 64 below 512; from there on four for each doubling.
 * Return: the size of the class above the one of @size bytes. */
uint32_t sb_geometry_next_class(uint32_t size);
/* Size classes of a segment with units of @unit_size bytes: from SB_BLOCK_MIN to half a unit. */
uint32_t sb_geometry_class_count(uint32_t unit_size);
/* Words of the bits for the log, of so many buckets, on all levels. */
uint64_t sb_geometry_unlogged_words(uint64_t bucket_count);
/* Lists of vacancies with so many classes (memory/vacancy.h). */
#define SB_GEOMETRY_LISTS(class_count) (3 + 2 * (class_count))
/* The bytes of them all. */
uint64_t sb_geometry_vacancies_size(const struct sb_geometry *geometry);
/* Where they are: behind the bitmaps. */
uint64_t sb_geometry_vacancies_at(const struct sb_geometry *geometry);

/* Make the geometry that @wish describes. Return: 0; -EINVAL (a field is out of its bounds);
 * -ENOSPC: @wish->size is too small, and ret->size says the least that serves. */
int sb_geometry_fit(const struct sb_geometry_wish *wish, struct sb_geometry *ret);

/* Whether a geometry that was read from a segment of @size bytes is one that sb_geometry_fit()
 * could have made. */
bool sb_geometry_sound(const struct sb_geometry *geometry, uint64_t size);

#endif
