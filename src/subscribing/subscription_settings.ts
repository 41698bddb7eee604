import { z } from 'zod';
import {
  DEFAULT_MAX_BYTES,
  DEFAULT_MAX_EVENTS,
  DEFAULT_TIMEOUT_MS,
} from '../config/subscription_defaults.ts';
import type { Config } from '../config.ts';
import type { Dialect } from '../routing/dialect.ts';

/**
 * The operator's settings: SettingLimits limit what subscribers may set, and SubscriptionDefaults apply to what a
 * subscriber has not set.
 */
export type SettingLimits = Pick<Config, 'laneLimitMax'>;
export type SubscriptionDefaults = Pick<Config, 'laneLimit' | 'laneLimitMax' | 'maxAttempts' | 'maxAgeMs'>;

interface Setting<Value> {
  /** Returns the schema of the setting's value as a client may send it in a request. */
  asked(limits: SettingLimits, dialect: Pick<Dialect, 'cutsMax'>): z.ZodType<Value>;
  /** What the description of the API says about the setting in a request. */
  askedText: string;
  /** The schema of the setting's value in a report about a subscriber. */
  shown: z.ZodType<Value>;
  /** Returns the value that applies. `stored` is the text in Redis, undefined if the subscriber has not set it. */
  read(stored: string | undefined, defaults: SubscriptionDefaults): Value;
  /** The name of the setting in the console, and its unit. */
  label: string;
  unit?: 'ms' | 'bytes';
}

const MAX_MAX_EVENTS = 10_000;

/**
 * The settings of a subscription that have a default, in the order in which reports list them. Their names here are
 * those in reports and in the subscriber's hash in Redis. `topics`, `callback`, `uuid` and the signing key are not
 * here, because each is stored in its own way.
 */
export const SETTINGS = {
  max_events: setting({
    asked: (_limits, { cutsMax }) =>
      cutsMax
        ? wholeNumber(1, Number.MAX_SAFE_INTEGER).transform((max) => Math.min(max, MAX_MAX_EVENTS))
        : wholeNumber(1, MAX_MAX_EVENTS),
    askedText: 'How many events make a batch full; by default 100.',
    shown: z.int().describe('How many events make a batch full: `max` of its subscription.'),
    read: (stored) => Number(stored ?? DEFAULT_MAX_EVENTS),
    label: 'Max events of a batch',
  }),
  max_bytes: setting({
    asked: () => wholeNumber(1024, 16 * 1024 * 1024),
    askedText: 'How many bytes the body of a delivery may have; by default 1048576.',
    shown: z.int().describe('How many bytes the body of a delivery may have.'),
    read: (stored) => Number(stored ?? DEFAULT_MAX_BYTES),
    label: 'Max size of a delivery',
    unit: 'bytes',
  }),
  timeout: setting({
    asked: () => wholeNumber(0, 3_600_000),
    askedText: 'How long a batch may wait for more events, in ms; by default 500.',
    shown: z.int().describe('How long a batch may wait for more events, in ms.'),
    read: (stored) => Number(stored ?? DEFAULT_TIMEOUT_MS),
    label: 'Waits for more',
    unit: 'ms',
  }),
  ordered: setting({
    asked: () => z.boolean('must be true or false'),
    askedText: 'Whether batches come one at a time, in order; by default not.',
    shown: z.boolean().describe('Whether its batches come one at a time, in order.'),
    read: (stored) => stored === '1',
    label: 'Keeps the order across batches',
  }),
  max_in_flight: setting({
    asked: ({ laneLimitMax }) => wholeNumber(1, laneLimitMax),
    askedText: 'How many deliveries may be under way; by default `ROUTEMASTER_LANE_LIMIT` of the bus.',
    shown: z.int().describe('How many deliveries may be under way.'),
    read: (stored, { laneLimit, laneLimitMax }) => Math.min(Number(stored ?? laneLimit), laneLimitMax),
    label: 'Max deliveries at a time',
  }),
  max_attempts: setting({
    asked: () => wholeNumber(1, 1_000_000),
    askedText:
      'After how many attempts a batch is a dead letter; by default `ROUTEMASTER_MAX_ATTEMPTS` of the bus.',
    shown: z.int().describe('After how many attempts a batch is a dead letter.'),
    read: (stored, { maxAttempts }) => Number(stored ?? maxAttempts),
    label: 'Max attempts',
  }),
  max_age: setting({
    asked: () => wholeNumber(1000, 365 * 86_400_000),
    askedText:
      'After how many ms a batch is a dead letter; by default the seconds of `ROUTEMASTER_MAX_AGE` of the bus.',
    shown: z.int().describe('After how many ms a batch is a dead letter.'),
    read: (stored, { maxAgeMs }) => Number(stored ?? maxAgeMs),
    label: 'Max age of a batch',
    unit: 'ms',
  }),
};

export type SettingName = keyof typeof SETTINGS;
export const SETTING_NAMES = Object.keys(SETTINGS) as SettingName[];

type SubscriptionSettings = { [Name in SettingName]: ReturnType<(typeof SETTINGS)[Name]['read']> };

/** The settings that a client asks for. A missing setting keeps its stored value; a new subscriber gets the default. */
export type WantedSettings = { [Name in SettingName]?: SubscriptionSettings[Name] | null | undefined };

type Asked<Value> = z.ZodOptional<z.ZodNullable<z.ZodType<Value>>>;

/** Returns a schema for each setting, for its value as a client may send it in a request. */
export const askedSettings = (limits: SettingLimits, dialect: Pick<Dialect, 'cutsMax'>) =>
  ofEach<{ [Name in SettingName]: Asked<SubscriptionSettings[Name]> }>((name) => {
    const { asked, askedText } = SETTINGS[name];
    return asked(limits, dialect).nullish().describe(askedText);
  });

/** A schema for each setting, for its value in a report about a subscriber. */
export const SHOWN_SETTINGS = ofEach<{ [Name in SettingName]: z.ZodType<SubscriptionSettings[Name]> }>(
  (name) => SETTINGS[name].shown,
);

/** Returns the settings that apply to a subscriber. `hash` has the fields of the subscriber's hash in Redis. */
export function readSettings(
  hash: Readonly<Partial<Record<string, string>>>,
  defaults: SubscriptionDefaults,
): SubscriptionSettings {
  return ofEach<SubscriptionSettings>((name) => SETTINGS[name].read(hash[name], defaults));
}

/** Returns the settings that a client asks for, as Redis stores them. */
export function storedSettings(wanted: WantedSettings): { name: SettingName; value: string }[] {
  return SETTING_NAMES.flatMap((name) => {
    const value = wanted[name] ?? undefined;
    if (value === undefined) return [];
    return { name, value: String(typeof value === 'boolean' ? Number(value) : value) };
  });
}

/** Returns an object with the value that `make` returns for each setting. */
function ofEach<Values extends Record<SettingName, unknown>>(
  make: (name: SettingName) => Values[SettingName],
): Values {
  return Object.fromEntries(SETTING_NAMES.map((name) => [name, make(name)])) as Values;
}

function setting<Value>(row: Setting<Value>): Setting<Value> {
  return row;
}

function wholeNumber(min: number, max: number) {
  return z
    .int(`must be a whole number from ${min} to ${max}`)
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);
}
