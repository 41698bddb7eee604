import { customAlphabet, nanoid } from 'nanoid';

/** A UID of the data layout: 20 characters of URL-safe Base64, 120 bits. Names batches and workers. */
export const uid = (): string => nanoid(20);

/**
 * The first 16 characters of the UIDs that one script call may make; the script adds 4 that count.
 * Scripts cannot draw them: Redis seeds its random generator alike at every call.
 */
export const uidSeed = (): string => nanoid(16);

/** An event's own id: 16 characters of URL-safe Base64, 96 bits. */
export const eventId = (): string => nanoid(16);

/** The random part of a client's token: 20 characters of `[a-z0-9]`, 103 bits. */
export const tokenSuffix = customAlphabet('abcdefghijklmnopqrstuvwxyz0123456789', 20);

/** A client's secret: 32 characters of URL-safe Base64, 192 bits. */
export const secret = (): string => nanoid(32);
