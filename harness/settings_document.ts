import { readFileSync, writeFileSync } from 'node:fs';
import { OF_BIN_START, SECTIONS } from '../src/config/settings.ts';

const COLUMNS = 120;

/** Returns the text of `.env.example`: every setting, and what bin/start reads, commented out, with its default. */
export function envExample(): string {
  const sections = Object.entries({ ...SECTIONS, 'bin/start alone': OF_BIN_START }).map(
    ([title, settings]) => [
      `# --- ${title} `.padEnd(COLUMNS, '-'),
      ...Object.values(settings).map(({ variable, unset = '', help }) => `# ${help}\n# ${variable}=${unset}`),
    ],
  );
  return `${[
    '# Every variable that Routemaster reads, with its default. An empty value counts as unset.\n' +
      '# Only ROUTEMASTER_ROOT_KEY must be set; `bin/start` makes one unless it is.\n' +
      '# `bin/start` reads a file `.env` like this one; the real environment wins.',
    ...sections.flat(),
  ].join('\n\n')}\n`;
}

/** Returns the settings in `docs/operating.md`: for each subject a heading, and a table of variable, default, help. */
export function settingsTables(): string {
  const sections = Object.entries(SECTIONS).map(([title, settings]) => {
    const rows = Object.values(settings).map(({ variable, unset, help }) => {
      const cell = unset ? `\`${unset}\`` : '';
      return `| \`${variable}\` | ${cell} | ${help.replaceAll('|', '\\|')} |`;
    });
    return [
      `### ${title}`,
      '',
      '| variable | default | what it sets |',
      '| --- | --- | --- |',
      ...rows,
      '',
    ].join('\n');
  });
  return sections.join('\n');
}

// `npm run settings` writes both documents. In docs/operating.md the settings are the first headings of the third level.
if (import.meta.main) {
  writeFileSync('.env.example', envExample());
  const page = readFileSync('docs/operating.md', 'utf8');
  writeFileSync(
    'docs/operating.md',
    page.replace(/^### .*?(?=^## )/ms, () => `${settingsTables()}\n`),
  );
}
