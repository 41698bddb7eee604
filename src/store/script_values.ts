import type { Packed } from './packed.ts';

/** An argument of a script: text (UTF-8), a number, or bytes. */
export type ScriptArgument = string | number | Buffer | Packed;

/** What a script answers: bytes, numbers, lists of these. */
export type ScriptReply = Buffer | number | null | ScriptReply[];
