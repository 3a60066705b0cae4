/* libpng12.so.0 for OpenCV 3.1, over the system's libpng16.so.16: what reading images needs, and nothing of
 * writing.
 *
 * OpenCV was compiled for libpng 1.2, whose png_struct begins with the jmp_buf that errors return to. It gets
 * a structure of that form here, with libpng 1.6's behind it. The pixels are those of libpng 1.2, except for
 * gray ones that are made of colors in images with gAMA chunks. */

#include <dlfcn.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct png12 {
  jmp_buf on_error; /* first, as in libpng 1.2 */
  void* png;        /* libpng 1.6's structure */
  void* io;         /* OpenCV's argument for its function */
  void (*read)(struct png12*, unsigned char*, size_t);
} png12;

static void* libpng(const char* name) {
  static void* library;
  if (library == NULL) library = dlopen("libpng16.so.16", RTLD_NOW | RTLD_LOCAL);
  void* found = library == NULL ? NULL : dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "libpng16.so.16: %s was not found\n", name);
    abort();
  }
  return found;
}

#define CALL(result, name, types) ((result(*) types)libpng(#name))

static void fail(void* png, const char* message) {
  png12* self = CALL(void*, png_get_error_ptr, (const void*))(png);
  fprintf(stderr, "libpng error: %s\n", message);
  longjmp(self->on_error, 1);
}

static void warn(void* png, const char* message) { fprintf(stderr, "libpng warning: %s\n", message); }

static void read_more(void* png, unsigned char* out, size_t size) {
  png12* self = CALL(void*, png_get_io_ptr, (const void*))(png);
  self->read(self, out, size);
}

png12* png_create_read_struct(const char* version, void* error_ptr, void* error, void* warning) {
  png12* self = calloc(1, sizeof *self);
  if (self == NULL) return NULL;
  const char* own = CALL(const char*, png_get_libpng_ver, (const void*))(NULL);
  self->png = CALL(void*, png_create_read_struct, (const char*, void*, void*, void*))(own, self, fail, warn);
  return self;
}

void png_destroy_read_struct(png12** self, void** info, void** end) {
  CALL(void, png_destroy_read_struct, (void**, void**, void**))(&(*self)->png, info, end);
  free(*self);
  *self = NULL;
}

void* png_create_info_struct(png12* self) { return CALL(void*, png_create_info_struct, (void*))(self->png); }
void png_error(png12* self, const char* message) { fail(self->png, message); }
void* png_get_io_ptr(png12* self) { return self->io; }
void png_init_io(png12* self, FILE* file) { CALL(void, png_init_io, (void*, FILE*))(self->png, file); }

void png_set_read_fn(png12* self, void* io, void (*read)(png12*, unsigned char*, size_t)) {
  self->io = io;
  self->read = read;
  CALL(void, png_set_read_fn, (void*, void*, void*))(self->png, self, read_more);
}

/* libpng 1.2's width and height have 64 bits, of which OpenCV uses 32. */
unsigned long png_get_IHDR(png12* self, void* info, uint32_t* width, uint32_t* height, int* depth, int* color,
                           int* interlace, int* compression, int* filter) {
  return CALL(uint32_t, png_get_IHDR, (void*, void*, uint32_t*, uint32_t*, int*, int*, int*, int*, int*))(
      self->png, info, width, height, depth, color, interlace, compression, filter);
}

unsigned long png_get_tRNS(png12* self, void* info, void* alpha, int* count, void* color) {
  return CALL(uint32_t, png_get_tRNS, (void*, void*, void*, int*, void*))(self->png, info, alpha, count,
                                                                          color);
}

/* In hundred-thousandths: 0.299 and 0.587. */
void png_set_rgb_to_gray(png12* self, int action, double red, double green) {
  CALL(void, png_set_rgb_to_gray_fixed, (void*, int, int, int))(self->png, action, 29900, 58700);
}

int png_set_interlace_handling(png12* self) {
  return CALL(int, png_set_interlace_handling, (void*))(self->png);
}
void png_read_image(png12* self, void** rows) {
  CALL(void, png_read_image, (void*, void**))(self->png, rows);
}

#define PLAIN(name) \
  void name(png12* self) { CALL(void, name, (void*))(self->png); }
PLAIN(png_set_bgr)
PLAIN(png_set_expand_gray_1_2_4_to_8)
PLAIN(png_set_gray_to_rgb)
PLAIN(png_set_packing)
PLAIN(png_set_palette_to_rgb)
PLAIN(png_set_strip_16)
PLAIN(png_set_strip_alpha)
PLAIN(png_set_swap)

#define WITH_INFO(name) \
  void name(png12* self, void* info) { CALL(void, name, (void*, void*))(self->png, info); }
WITH_INFO(png_read_info)
WITH_INFO(png_read_update_info)
WITH_INFO(png_read_end)

/* Of writing. */
#define MISSING(name) \
  void name(void) { abort(); }
MISSING(png_create_write_struct)
MISSING(png_destroy_write_struct)
MISSING(png_set_IHDR)
MISSING(png_set_compression_level)
MISSING(png_set_compression_strategy)
MISSING(png_set_filter)
MISSING(png_set_write_fn)
MISSING(png_write_end)
MISSING(png_write_image)
MISSING(png_write_info)
