/**
 * The time of sending, carried by an event in its data: `{"sentAtUs": …}`. It is in the one monotonic clock that all
 * processes of a machine share, which `performance.now()` is not.
 */
const STAMP = /"sentAtUs":(\d+)/;
const STAMPS = /"sentAtUs":(\d+)/g;

export function nowMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** `body` with the stamp that it holds set. */
export function stampedAt(body: string, atUs: number): string {
  return body.replace(STAMP, `"sentAtUs":${atUs}`);
}

/** How long ago each of the body's stamps was set, in ms, in their order. */
export function agesMs(body: string): number[] {
  const now = nowMicros();
  return Array.from(body.matchAll(STAMPS), ([, sentAtUs]) => (now - Number(sentAtUs)) / 1000);
}
