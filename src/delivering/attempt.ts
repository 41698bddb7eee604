/** An attempt to deliver a batch that failed. */
export interface FailedAttempt {
  /** When it began, ms by Redis's clock. */
  atMs: number;
  durationMs: number;
  /** The HTTP status, if the subscriber answered. */
  status?: number | undefined;
  reason: string;
  /** The beginning of the answer's body. */
  answer?: string | undefined;
}

/** A failed attempt as Redis holds it and the API shows it. */
export interface AttemptReport {
  at: number;
  status: number | null;
  duration_ms: number;
  reason: string;
  answer: string | null;
}

/** Bounds the reason too: it can quote the callback, such as a certificate for thousands of names. */
const MAX_CHARACTERS = 256;

/** The report in JSON. Its texts are safe to show anywhere, whatever the callback sent. */
export function attemptJson({ atMs, durationMs, status, reason, answer }: FailedAttempt): string {
  const report: AttemptReport = {
    at: atMs,
    status: status ?? null,
    duration_ms: Math.round(durationMs),
    reason: printable(reason),
    answer: answer === undefined ? null : printable(answer),
  };
  return JSON.stringify(report);
}

/** Makes one line of the text and replaces control characters: those that move a cursor or change the writing direction. */
function printable(text: string): string {
  const line = text.slice(0, MAX_CHARACTERS).replace(/[\t\n\r\p{Zl}\p{Zp}]/gu, ' ');
  return line.replace(/\p{C}/gu, '\u{fffd}');
}
