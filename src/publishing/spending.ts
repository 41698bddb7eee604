import type { Partition } from '../store/partition.ts';

/** What each client may publish, over all web processes. */
export interface PublishRates {
  /** Events a second; 0: no limit. */
  publishRate: number;
  /** Bytes of bodies a second; 0: no limit. */
  publishBytes: number;
  /** What was not used within this time is not saved up any longer. */
  publishBurstMs: number;
}

/** What a publication of a client needs. */
export interface Demand {
  client: string;
  events: number;
  bytes: number;
}

export interface Spent {
  letIn: boolean;
  /** When each of its client's buckets is full again, in ms from now. */
  eventsFullInMs: number;
  bytesFullInMs: number;
}

/** Takes what publications need from the buckets of their clients, in their order. One answer each. */
export function spend(store: Partition, rates: PublishRates, demands: readonly Demand[]): Promise<Spent[]> {
  const { publishBurstMs, publishRate, publishBytes } = rates;
  const limits = { burstMs: publishBurstMs, eventsPerSecond: publishRate, bytesPerSecond: publishBytes };
  return store.run('spend', { ...limits, demands });
}
