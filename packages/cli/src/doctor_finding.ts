export interface Finding {
  check: string;
  isWell: boolean;
  detail: string;
  advice?: string;
}

/** The role of the caller: a client, or a watcher (root or a viewer), which sees all subscriptions in full. */
export type Role = 'client' | 'watcher';

export function good(check: string, detail: string): Finding {
  return { check, isWell: true, detail };
}

export function bad(check: string, detail: string, advice?: string): Finding {
  return { check, isWell: false, detail, ...(advice !== undefined && { advice }) };
}
