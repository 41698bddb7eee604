import type { TestContext } from 'node:test';
import type { Subscriber } from '../../src/delivering/grant.ts';
import { Delivery } from '../../src/delivering/sending/delivery.ts';
import type { ConnectionSettings } from '../../src/delivering/sending/delivery_connections.ts';
import type { DeliveryOutcome } from '../../src/delivering/sending/delivery_exchange.ts';
import { CallbackPolicy, type PolicyOptions } from '../../src/subscribing/callback_policy.ts';
import { RUBY_EVENT } from '../redis/ruby_redis.ts';

export interface SenderOptions extends Partial<ConnectionSettings>, PolicyOptions {
  allow?: string[];
}

/** Returns a function that sends a batch to a callback, as a delivery thread does. */
export function sender(t: TestContext, { allow = [], ...options }: SenderOptions = {}) {
  const limits = {
    deliveryTimeoutMs: 60_000,
    connectTimeoutMs: 10_000,
    sslVerify: true,
    keptConnections: 500,
  };
  const delivery = new Delivery({ ...limits, ...options }, new CallbackPolicy(allow, options));
  t.after(() => delivery.close());
  const batch = {
    bid: 'b'.repeat(20),
    createdAtMs: 0,
    attempts: 1,
    count: 1,
    pieces: [RUBY_EVENT],
  };
  return (
    callback: string,
    { token = 'me', ...more }: Partial<Subscriber> & { token?: string } = {},
  ): Promise<DeliveryOutcome> => {
    const subscriber = { callback, uuid: 'me', subscribedAt: '0', healthPoints: 100, ...more };
    return delivery.deliver({ ...batch, token }, subscriber, new AbortController().signal);
  };
}

/** Returns why a delivery failed. Throws if it was accepted. */
export function reasonOf(outcome: DeliveryOutcome): string {
  if (outcome.accepted) throw new Error('it was taken');
  return outcome.reason;
}
