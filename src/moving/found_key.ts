import { fixedText, type KeyName, LAYOUT } from '../store/keys.ts';

/** A key of the layout, with the variable parts of its name. */
export interface FoundKey {
  key: string;
  name: KeyName;
  parts: string[];
}

/** What some parts look like. The others may contain anything: the token of a join has colons. */
const SHAPES: Readonly<Record<string, string>> = { q: 'main|aux', bid: '[\\w-]{20}', name: '[^:]+' };

const NAMES = (Object.keys(LAYOUT) as KeyName[]).map((name) => {
  const { pattern } = LAYOUT[name];
  const shape = pattern.replace(/\{(\w+)\}/g, (_, part: string) => `(${SHAPES[part] ?? '.+'})`);
  return {
    name,
    head: headOf(pattern),
    fixed: fixedText(pattern).join('').length,
    shape: new RegExp(`^${shape}$`, 's'),
  };
});

/** By the beginning of the key, those with the longest fixed text first: `batches:index:{token}` before `batches:{bid}`. */
const BY_HEAD = Map.groupBy(
  NAMES.sort((one, other) => other.fixed - one.fixed),
  ({ head }) => head,
);

/** Returns which key of the layout this is; undefined if it is none of the bus with this prefix. */
export function foundKey(key: string, prefix: string): FoundKey | undefined {
  if (!key.startsWith(prefix)) return undefined;
  const rest = key.slice(prefix.length);
  for (const { name, shape } of BY_HEAD.get(headOf(rest)) ?? []) {
    const [, ...parts] = shape.exec(rest) ?? [];
    if (shape.test(rest)) return { key, name, parts };
  }
  return undefined;
}

function headOf(text: string): string {
  return /^[^:{]*/.exec(text)?.[0] ?? '';
}
