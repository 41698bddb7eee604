/** Something that must hold. */
export interface Bar {
  text: string;
  ok: boolean;
  /** The finding, if it adds to the text. */
  found?: string;
}

/** A table as text: the first column is aligned to the left, the others to the right. */
export function columns(lines: string[][]): string[] {
  const widths = (lines[0] ?? []).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
      .join('   ')
      .trimEnd(),
  );
}
