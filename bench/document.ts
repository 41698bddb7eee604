import { readFileSync, writeFileSync } from 'node:fs';

/** The line that a place begins with, and the one that it ends with. */
export function marks(name: string): [begin: string, end: string] {
  return [`<!-- begin ${name} -->`, `<!-- end ${name} -->`];
}

/** Puts text into its place in a document, and leaves the rest as it is. Throws if there is no such place. */
export function place(document: string, name: string, text: string): string {
  const [begin, end] = marks(name);
  const [from, to] = [document.indexOf(begin), document.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`the document has no place for ${name}: ${begin} … ${end}`);
  return `${document.slice(0, from + begin.length)}\n\n${text.trim()}\n\n${document.slice(to)}`;
}

/** The same in a file. */
export function placeInFile(file: string, name: string, text: string): void {
  writeFileSync(file, place(readFileSync(file, 'utf8'), name, text));
}
