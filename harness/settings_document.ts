import { writeFileSync } from 'node:fs';
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

/** Returns the text of `docs/settings.md`: for each subject a heading, and a table of variable, default and help. */
export function settingsPage(): string {
  const sections = Object.entries({ ...SECTIONS, 'bin/start alone': OF_BIN_START }).map(
    ([title, settings]) => {
      const rows = Object.values(settings).map(({ variable, unset, help }) => {
        const cell = unset ? `\`${unset}\`` : '';
        return `| \`${variable}\` | ${cell} | ${help.replaceAll('|', '\\|')} |`;
      });
      return [
        `## ${title}`,
        '',
        '| variable | default | what it sets |',
        '| --- | --- | --- |',
        ...rows,
      ].join('\n');
    },
  );
  return `${[
    '# Settings',
    'All environment variables that Routemaster reads. An empty value counts as unset. Only `ROUTEMASTER_ROOT_KEY` must be\n' +
      'set; `bin/start` makes one unless it is. [operating.md](operating.md#configuration) says which to look at first.\n' +
      '[.env.example](../.env.example) has the same list as a file to copy. `npm run settings` writes both.',
    ...sections,
  ].join('\n\n')}\n`;
}

if (import.meta.main) {
  writeFileSync('.env.example', envExample());
  writeFileSync('docs/settings.md', settingsPage());
}
