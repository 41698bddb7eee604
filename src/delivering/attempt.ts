import type { AttemptReport } from './attempt_report.ts';

export interface FailedAttempt {
  /** When the attempt began, in ms by Redis's clock. */
  atMs: number;
  durationMs: number;
  status?: number | undefined;
  reason: string;
  answer?: string | undefined;
}

/**
 * Maximum length of `reason` and `answer` in a FailedAttempt. A `reason` may quote a certificate with thousands of
 * names.
 */
const MAX_CHARACTERS = 256;

/** Returns an AttemptReport as JSON. Control characters that came from the callback are replaced. */
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

/**
 * Returns the first MAX_CHARACTERS of the text as one line, without blanks around it. Replaces control characters,
 * which could move a terminal's cursor or reverse the text.
 */
export function printable(text: string): string {
  const kept = text.slice(0, MAX_CHARACTERS).trim();
  const line = kept.replace(/[\t\n\r\p{Zl}\p{Zp}]/gu, ' ');
  return line.replace(/\p{C}/gu, '\u{fffd}');
}
