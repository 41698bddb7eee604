import { customAlphabet, nanoid } from 'nanoid';

/** The id of a batch or a worker: 20 characters of URL-safe Base64, 120 bits. */
export const uid = (): string => nanoid(20);

/**
 * The first 16 characters of the ids that one script call makes; the script appends a counter of 4. The script cannot draw
 * random ids itself: Redis seeds its generator with the same number for every call.
 */
export const uidSeed = (): string => nanoid(16);

/** The random part of a client's token: 20 characters of `[a-z0-9]`, 103 bits. */
export const tokenSuffix = customAlphabet('abcdefghijklmnopqrstuvwxyz0123456789', 20);

/** A client's secret: 32 characters of URL-safe Base64, 192 bits. */
export const secret = (): string => nanoid(32);
