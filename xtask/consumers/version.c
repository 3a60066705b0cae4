/* The header serves plain C, and belongs to the library that it is used with. */
#include <cntk_reader.h>
#include <stdio.h>

int main(void) {
  printf("%s\n", cntk_reader_version_text());
  return cntk_reader_version() == CNTK_READER_VERSION ? 0 : 1;
}
