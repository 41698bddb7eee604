import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../processes/command.ts';
import { madeOnce } from './made_once.ts';

const run = promisify(execFile);
const COMPILER = join(root, 'node_modules', '.bin', 'tsc');
const PACKED = join(root, 'node_modules', '.cache', 'packed');
const STRICT = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--noUnusedLocals'];
/** Maximum time that a program may run. It should end by itself long before. */
const RUN_MS = 30_000;

/** A program of a README: TypeScript, CommonJS where it says `require`, otherwise a module. */
export interface Example {
  file: string;
  text: string;
}

/** A package of packages/, packed as for npm, and installed in a folder with nothing else. */
export class InstalledPackage {
  readonly #folder: string;

  /**
   * Installs a package without a network, because the packages depend only on each other. `others` are the packages
   * that this one needs.
   */
  static async of(name: string, ...others: string[]): Promise<InstalledPackage> {
    const folder = await mkdtemp(join(tmpdir(), `routemaster-${name}-`));
    const files: string[] = [];
    for (const each of [...others, name]) files.push((await pack(each)).file);
    await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
    await run('npm', ['install', '--offline', '--no-audit', '--no-fund', ...files], { cwd: folder });
    return new InstalledPackage(folder);
  }

  private constructor(folder: string) {
    this.#folder = folder;
  }

  async write({ file, text }: Example): Promise<void> {
    await writeFile(join(this.#folder, file), text);
  }

  /** Compiles TypeScript files with no types but the package's. Throws with the messages of the compiler. */
  async compile(files: readonly string[]): Promise<void> {
    const options = ['--module', 'nodenext', '--target', 'es2022', '--types', '', ...STRICT];
    await run(COMPILER, [...options, ...files], { cwd: this.#folder }).catch(({ stdout }) => {
      throw new Error(stdout);
    });
  }

  /** Runs a program to its end, and returns what it wrote on stderr. Throws if it fails. */
  async run(node: string, file: string): Promise<string> {
    const options = { cwd: this.#folder, timeout: RUN_MS };
    const { stderr } = await run(node, [file.replace(/\.ts$/, '.js')], options);
    return stderr;
  }

  /** Runs a command of the package by this Node, and returns what it wrote on stdout. Throws if it fails. */
  async command(node: string, name: string, args: string[]): Promise<string> {
    const path = join(this.#folder, 'node_modules', '.bin', name);
    const { stdout } = await run(node, [path, ...args], { cwd: this.#folder, timeout: RUN_MS });
    return stdout;
  }

  remove(): Promise<void> {
    return rm(this.#folder, { recursive: true, force: true });
  }
}

/** Returns the programs of the package's README. */
export async function readExamples(name: string): Promise<Example[]> {
  const readme = await readFile(join(source(name), 'README.md'), 'utf8');
  return [...readme.matchAll(/^```(js|ts)\n([\s\S]*?)^```$/gm)].map(([, language, text = ''], n) => ({
    file: `example_${n}.${language === 'ts' ? 'ts' : text.includes('require(') ? 'cjs' : 'mjs'}`,
    text,
  }));
}

/** Returns the files that npm would publish. */
export async function packedFiles(name: string): Promise<string[]> {
  return (await pack(name)).paths;
}

/** Packs a package for npm, once for each state of its sources: `file` is what npm publishes, `paths` what is in it. */
async function pack(name: string): Promise<{ file: string; paths: string[] }> {
  const folder = join(PACKED, `${name}-${hashOfSources(name)}`);
  await madeOnce(folder, async (unfinished) => {
    const command = ['pack', '--json', '--pack-destination', unfinished];
    const { stdout } = await run('npm', command, { cwd: source(name) });
    await writeFile(join(unfinished, 'packed.json'), stdout);
  });
  const [{ filename, files }] = JSON.parse(await readFile(join(folder, 'packed.json'), 'utf8'));
  return { file: join(folder, filename), paths: files.map(({ path }: { path: string }) => path) };
}

function hashOfSources(name: string): string {
  const hash = createHash('sha256');
  const own = globSync(['*.*', 'LICENSE', 'src/**/*.ts'], { cwd: source(name) }).sort();
  const files = [...own.map((path) => join(source(name), path)), join(root, 'tsconfig.json')];
  for (const path of files) hash.update(`${path}\0${readFileSync(path, 'utf8')}\0`);
  return hash.digest('hex').slice(0, 16);
}

function source(name: string): string {
  return join(root, 'packages', name);
}
