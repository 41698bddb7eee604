import { fixedText, type KeyName, LAYOUT } from './keys.ts';

/**
 * A key that was found in Redis. `name` is its name in the table LAYOUT (keys.ts), and `parts` has the parts of the key
 * that vary, such as a token.
 */
export interface FoundKey {
  key: string;
  name: KeyName;
  parts: string[];
}

/**
 * Regular expressions for some variable parts of keys. All other parts may have any characters: the token of a join,
 * for example, has colons.
 */
const PART_SHAPES: Readonly<Record<string, string>> = { q: 'main|aux', bid: '[\\w-]{20}', name: '[^:]+' };

const KEY_SHAPES = (Object.keys(LAYOUT) as KeyName[]).map((name) => {
  const { pattern } = LAYOUT[name];
  const shape = pattern.replace(/\{(\w+)\}/g, (_, part: string) => `(${PART_SHAPES[part] ?? '.+'})`);
  return {
    name,
    head: headOf(pattern),
    fixed: fixedText(pattern).join('').length,
    shape: new RegExp(`^${shape}$`, 's'),
  };
});

/**
 * The patterns of LAYOUT, grouped by the text before their first colon (`head`). In each group, patterns with more
 * fixed text come first. So the key `topics:owned:x` gets the pattern `topics:owned:{token}`, not `topics:{token}`.
 */
const BY_HEAD = Map.groupBy(
  KEY_SHAPES.sort((one, other) => other.fixed - one.fixed),
  ({ head }) => head,
);

/**
 * Finds the pattern of LAYOUT that a Redis key matches. Returns undefined if the key lacks the prefix, or matches none.
 */
export function foundKey(key: string, prefix: string): FoundKey | undefined {
  if (!key.startsWith(prefix)) return undefined;
  const rest = key.slice(prefix.length);
  for (const { name, shape } of BY_HEAD.get(headOf(rest)) ?? []) {
    const match = shape.exec(rest);
    if (match) return { key, name, parts: match.slice(1) };
  }
  return undefined;
}

function headOf(text: string): string {
  return /^[^:{]*/.exec(text)?.[0] ?? '';
}
