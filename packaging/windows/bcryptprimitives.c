/* A library of Windows 10 that Wine 8 lacks and that Rust's standard library loads: random bytes. Tests put it
   next to the program; a release does not contain it. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID data, ULONG size);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{
    return SystemFunction036(data, (ULONG)size);
}
