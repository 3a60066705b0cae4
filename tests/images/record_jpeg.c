/* Records what libjpeg-turbo makes of JPEG files and of damaged copies of them, for tests/images_decode.rs.
 *
 * usage: cc -O2 record_jpeg.c -o record_jpeg -ljpeg -lz && ./record_jpeg COPIES FILE... > jpeg_record.txt
 *
 * Needs libjpeg-turbo and zlib (Debian: libjpeg62-turbo-dev 2.1.5, by which the record that is kept was made,
 * zlib1g-dev). Each line has a file's name and, for the file itself and each damaged copy, the CRC-32 of its
 * pixels in blue, green, red and that of its gray ones; '-' where libjpeg-turbo refuses the file; '?' where
 * it smooths colors that libjpeg-turbo 1.4, which CNTK 2.7 is built with, does not smooth (a vertical step of
 * 2 without a horizontal one, beside other steps). Copies are damaged by `damage`, which the test repeats.
 * Colors of inks are computed as CNTK's library does.
 */
#include <jpeglib.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MOST_PIXELS (1 << 20)

static jmp_buf failed;
static void fail(j_common_ptr info) { longjmp(failed, 1); }
static void no_message(j_common_ptr info, int level) {}
static void no_output(j_common_ptr info) {}

static unsigned long long state;
static size_t below(size_t end) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (state >> 16) % (end ? end : 1);
}

/* Damages the copy that the number `state` stands for; returns its length. */
static size_t damage(unsigned char* data, size_t length) {
  size_t i, at, count;
  switch (below(4)) {
    case 0:
      return below(length);
    case 1:
      count = 1 + below(4);
      for (i = 0; i < count; i++) {
        at = below(length);
        data[at] = (unsigned char)below(256);
      }
      return length;
    case 2:
      at = below(length);
      data[at] ^= 1 << below(8);
      return length;
    default:
      at = below(length);
      count = below(20);
      if (count > length - at) count = length - at;
      memmove(data + at, data + at + count, length - at - count);
      return length - count;
  }
}

/* 0: refused; 1: decoded; 2: not comparable. */
static int decode(const unsigned char* data, size_t length, int gray, unsigned* crc) {
  static struct jpeg_decompress_struct info;
  static struct jpeg_error_mgr errors;
  static unsigned char *row, *line;
  int i, steep = 0, other = 0, inks;
  if (length < 3 || memcmp(data, "\xff\xd8\xff", 3)) return 0;
  info.err = jpeg_std_error(&errors);
  errors.error_exit = fail;
  errors.emit_message = no_message;
  errors.output_message = no_output;
  row = line = NULL;
  jpeg_create_decompress(&info);
  if (setjmp(failed)) {
    jpeg_destroy_decompress(&info);
    free(row);
    free(line);
    return 0;
  }
  jpeg_mem_src(&info, data, length);
  jpeg_read_header(&info, TRUE);
  if ((unsigned long long)info.image_width * info.image_height > MOST_PIXELS) longjmp(failed, 1);
  inks = info.num_components == 4;
  info.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_EXT_BGR;
  info.dct_method = JDCT_ISLOW;
  for (i = 0; i < info.num_components; i++) {
    int h = info.comp_info[i].h_samp_factor, v = info.comp_info[i].v_samp_factor, mh = 1, mv = 1, j;
    for (j = 0; j < info.num_components; j++) {
      if (info.comp_info[j].h_samp_factor > mh) mh = info.comp_info[j].h_samp_factor;
      if (info.comp_info[j].v_samp_factor > mv) mv = info.comp_info[j].v_samp_factor;
    }
    if (h == mh && mv == 2 * v)
      steep = 1;
    else if (h != mh)
      other = 1;
  }
  if (steep) info.do_fancy_upsampling = FALSE;
  jpeg_start_decompress(&info);
  row = malloc((size_t)info.output_width * 4);
  line = malloc((size_t)info.output_width * 3);
  *crc = crc32(0, NULL, 0);
  while (info.output_scanline < info.output_height) {
    JSAMPROW rows[1];
    size_t size = (size_t)info.output_width * info.output_components;
    rows[0] = row;
    jpeg_read_scanlines(&info, rows, 1);
    if (inks) {
      size = (size_t)info.output_width * (gray ? 1 : 3);
      for (i = 0; i < (int)info.output_width; i++) {
        unsigned char* p = row + 4 * i;
        int k = p[3], b = k - (((255 - p[2]) * k) >> 8), g = k - (((255 - p[1]) * k) >> 8),
            r = k - (((255 - p[0]) * k) >> 8);
        if (gray)
          line[i] = (1868 * b + 9617 * g + 4899 * r + 8192) >> 14;
        else {
          line[3 * i] = b;
          line[3 * i + 1] = g;
          line[3 * i + 2] = r;
        }
      }
      *crc = crc32(*crc, line, size);
    } else {
      *crc = crc32(*crc, row, size);
    }
  }
  jpeg_destroy_decompress(&info);
  free(row);
  free(line);
  return steep && other ? 2 : 1;
}

int main(int argc, char** argv) {
  int copies = atoi(argv[1]), f, copy, gray;
  for (f = 2; f < argc; f++) {
    FILE* file = fopen(argv[f], "rb");
    static unsigned char data[1 << 20], copied[1 << 20];
    size_t length = fread(data, 1, sizeof data, file), damaged;
    fclose(file);
    if (length < 3 || memcmp(data, "\xff\xd8\xff", 3)) continue;
    printf("%s", argv[f]);
    for (copy = 0; copy <= copies; copy++) {
      memcpy(copied, data, length);
      damaged = length;
      if (copy) {
        state = copy * 7919ULL + length;
        damaged = damage(copied, length);
      }
      for (gray = 0; gray < 2; gray++) {
        unsigned crc = 0;
        int result = decode(copied, damaged, gray, &crc);
        if (result == 1)
          printf(" %08x", crc);
        else
          printf(result ? " ?" : " -");
      }
    }
    printf("\n");
  }
  return 0;
}
