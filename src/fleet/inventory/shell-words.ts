/** Why a line cannot be split. */
export class WordsError extends Error {}

/**
 * The words of a line as Python's `shlex.split(line, comments=True)` cuts them: quotes group, a backslash protects, and
 * a `#` outside quotes begins a comment wherever it stands, in the middle of a word too. Throws a WordsError.
 */
export function shellWords(line: string): string[] {
  const words: string[] = [];
  let word = '';
  /** Quotes make a word even when nothing is in them. */
  let quoted = false;
  let at = 0;
  const end = () => {
    if (word !== '' || quoted) words.push(word);
    word = '';
    quoted = false;
  };
  while (at < line.length) {
    const character = line[at] as string;
    at++;
    if (' \t\r\n'.includes(character)) end();
    else if (character === '#') {
      end();
      const next = line.indexOf('\n', at);
      at = next === -1 ? line.length : next + 1;
    } else if (character === '\\') {
      if (at === line.length) throw new WordsError('ends with a backslash');
      word += line[at];
      at++;
    } else if (character === '"' || character === "'") {
      quoted = true;
      at = quotedPart(character);
    } else word += character;
  }
  end();
  return words;

  function quotedPart(quote: string): number {
    let inside = at;
    while (line[inside] !== quote) {
      if (inside >= line.length) throw new WordsError('has a quote that is not closed');
      if (quote === '"' && line[inside] === '\\') {
        inside++;
        if (inside >= line.length) throw new WordsError('ends with a backslash');
        if (line[inside] !== '\\' && line[inside] !== '"') word += '\\';
      }
      word += line[inside];
      inside++;
    }
    return inside + 1;
  }
}
