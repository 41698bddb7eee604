/** A failed attempt at a batch. */
export interface Attempt {
  /** When it began, ms by Redis's clock. */
  atMs: number;
  durationMs: number;
  /** The HTTP status, if the subscriber answered. */
  status?: number | undefined;
  reason: string;
  /** How the answer's body began. */
  answer?: string | undefined;
}

/** As the API shows it. */
export interface AttemptReport {
  at: number;
  status: number | null;
  duration_ms: number;
  reason: string;
  answer: string | null;
}

/** How long a text is kept. Reasons can quote the callback too: a certificate for thousands of names, say. */
const MOST_CHARACTERS = 256;

/** What Redis keeps of an attempt: its texts can be shown anywhere, whatever the callback sent. */
export function attemptJson({ atMs, durationMs, status, reason, answer }: Attempt): string {
  const report: AttemptReport = {
    at: atMs,
    status: status ?? null,
    duration_ms: Math.round(durationMs),
    reason: printable(reason),
    answer: answer === undefined ? null : printable(answer),
  };
  return JSON.stringify(report);
}

/** In one line, without what moves a cursor, turns the direction of writing, or is no character at all. */
function printable(text: string): string {
  const line = text.slice(0, MOST_CHARACTERS).replace(/[\t\n\r\p{Zl}\p{Zp}]/gu, ' ');
  return line.replace(/\p{C}/gu, '\u{fffd}');
}
