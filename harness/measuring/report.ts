/** A claim about the figures that must hold. */
export interface Bar {
  text: string;
  ok: boolean;
  /** The measured value, if it says more than the text. */
  found?: string;
}

/** Returns a table as lines of text. The first column is aligned to the left, the others to the right. */
export function columns(lines: string[][]): string[] {
  const widths = (lines[0] ?? []).map((_, at) => Math.max(...lines.map((line) => line[at]?.length ?? 0)));
  return lines.map((line) =>
    line
      .map((text, at) => (at === 0 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
      .join('   ')
      .trimEnd(),
  );
}
