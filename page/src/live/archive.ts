/** Files as one tar archive (POSIX ustar), which every system unpacks and which needs no library. */

const BLOCK = 512;

function header(name: string, size: number): Uint8Array {
  const block = new Uint8Array(BLOCK);
  const put = (text: string, at: number) => block.set(new TextEncoder().encode(text), at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0");
  put(name.slice(0, 100), 0);
  put(`${octal(0o644, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(0, 11)}\0`, 100);
  // The sum is taken with blanks in its own place.
  put("        0", 148);
  put("ustar\u000000", 257);
  put(`${octal(block.reduce((sum, each) => sum + each, 0), 6)}\0 `, 148);
  return block;
}

export function archive(files: { name: string; text: string }[]): Blob {
  const parts = files.flatMap((each) => {
    const body = new TextEncoder().encode(each.text);
    return [header(each.name, body.length), body, new Uint8Array((BLOCK - (body.length % BLOCK)) % BLOCK)];
  });
  return new Blob([...parts, new Uint8Array(2 * BLOCK)] as BlobPart[], { type: "application/x-tar" });
}
