/**
 * The time of sending, carried by an event in its data: `{"sentAtUs": …}`. It is in the one monotonic clock that all
 * processes of a machine share, which `performance.now()` is not.
 */
const STAMP = /"sentAtUs":(\d+)/;

export function nowMicros(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** `body` with the stamp that it holds set to now. */
export function stamped(body: string): string {
  return body.replace(STAMP, `"sentAtUs":${nowMicros()}`);
}

/** How long ago the body's stamp was set, in ms; undefined if it has none. */
export function ageMs(body: string): number | undefined {
  const sentAtUs = STAMP.exec(body)?.[1];
  return sentAtUs === undefined ? undefined : (nowMicros() - Number(sentAtUs)) / 1000;
}
