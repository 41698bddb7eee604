export interface Finding {
  check: string;
  /** False if something must be done. The exit status is then 2. */
  isWell: boolean;
  /** True if nothing is left to do, but the user should know what has happened. */
  isWarning?: true;
  detail: string;
  advice?: string;
}

/** The role of the caller: a client, or a watcher (root or a viewer), which sees all subscriptions in full. */
export type Role = 'client' | 'watcher';

export function good(check: string, detail: string): Finding {
  return { check, isWell: true, detail };
}

export function warning(check: string, detail: string, advice: string): Finding {
  return { check, isWell: true, isWarning: true, detail, advice };
}

export function bad(check: string, detail: string, advice?: string): Finding {
  return { check, isWell: false, detail, ...(advice !== undefined && { advice }) };
}

/** Time that a call of the bus may take, with its repetitions, before the doctor calls it bad. */
export const CHECK_TIMEOUT_MS = 10_000;
