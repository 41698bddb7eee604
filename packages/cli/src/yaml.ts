import { jsonOf } from './tables.ts';

type Yaml = null | boolean | number | string | readonly Yaml[] | { readonly [key: string]: Yaml };

// Matches strings that YAML would take for other types if they were not quoted: yes, 12, 12:30.
const NOT_TEXT =
  /^(y|n|yes|no|on|off|true|false|null|~|)$|^[-+]?[\d.][\d_,.]*(e[-+]?\d+)?$|^0[xob]|^\d+[-:]\d/i;
/** Matches characters that `jsonOf` escapes, because a terminal would obey them. */
const OBEYED = /[\p{Cc}\p{Bidi_Control}]/u;
const PLAIN = /^[\w/.][\w/.:@%?&=+~,;()$*!-]*$/;

/** Returns a value as Ruby's `YAML.dump` writes it, with Ruby symbols (such as `:name`) as keys. */
export function rubyYaml(value: Yaml): string {
  const body = block(value, '');
  return body.startsWith('\n') ? `---${body}` : `--- ${body}`;
}

/** A scalar, or an empty list or object, stays on the line of its key. Any other value begins on the next line. */
function block(value: Yaml, indent: string): string {
  if (Array.isArray(value)) return value.length === 0 ? '[]' : list(value, indent);
  if (typeof value !== 'object' || value === null) return scalar(value);
  const keys = Object.keys(value);
  return keys.length === 0 ? '{}' : `\n${indent}${members(value as { [key: string]: Yaml }, indent)}`;
}

function list(items: readonly Yaml[], indent: string): string {
  const each = (item: Yaml) => block(item, `${indent}  `).trimStart();
  return items.map((item) => `\n${indent}- ${each(item)}`).join('');
}

function members(value: { readonly [key: string]: Yaml }, indent: string): string {
  const member = ([key, item]: [string, Yaml]) => {
    const text = block(item, Array.isArray(item) ? indent : `${indent}  `);
    return `:${key}:${text === '' || text.startsWith('\n') ? '' : ' '}${text}`;
  };
  return Object.entries(value).map(member).join(`\n${indent}`);
}

function scalar(value: null | boolean | number | string | object): string {
  if (value === null) return '';
  if (typeof value !== 'string') return String(value);
  if (PLAIN.test(value) && !NOT_TEXT.test(value) && !value.endsWith(':')) return value;
  return OBEYED.test(value) ? jsonOf(value) : `'${value.replaceAll("'", "''")}'`;
}
