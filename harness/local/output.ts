const colours = [36, 35, 32, 33, 34]; // cyan, magenta, green, yellow, blue

/** Prints lines behind the name of whom they come from, each in its colour where a terminal shows colours. */
export class Output {
  readonly #names: string[];
  readonly #width: number;
  readonly #coloured: boolean;

  constructor(names: string[], coloured = process.stdout.isTTY === true && !process.env.NO_COLOR) {
    this.#names = names;
    this.#width = Math.max(...names.map((name) => name.length));
    this.#coloured = coloured;
  }

  line(name: string, text: string): void {
    const prefix = `${name.padEnd(this.#width)} |`;
    const colour = colours[this.#names.indexOf(name) % colours.length];
    console.log(`${this.#coloured ? `\x1b[${colour}m${prefix}\x1b[0m` : prefix} ${text}`);
  }

  plain(text: string): void {
    console.log(text);
  }
}
