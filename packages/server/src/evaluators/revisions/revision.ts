import { type Evaluator, type EvaluatorRevisionContent, evaluatorRevisionContent } from '@sluice/contract';
import { parseLossless } from '@sluice/protocol/json/parse';
import { checksumOf } from './canonical-json.ts';

/**
 * A set of evaluators that was submitted (decisions 2.10), the evaluators as JSON text: as objects they may take twenty
 * times the memory, and most revisions are never looked at again.
 */
export type Revision = Readonly<Omit<EvaluatorRevisionContent, 'evaluators'>> & {
  /** Without blanks, as it is answered and stored. */
  readonly evaluatorsJson: string;
};

/** What a revision keeps of evaluators. */
export type Content = Pick<Revision, 'evaluatorsJson' | 'checksum'>;

/** What there is to keep of these. */
export function contentOf(evaluators: readonly Evaluator[]): Content {
  return { evaluatorsJson: JSON.stringify(evaluators), checksum: checksumOf(evaluators) };
}

/** The evaluators of a revision, parsed anew each time. Throws for text that is not that of evaluators. */
export function evaluatorsOf({ evaluatorsJson }: Pick<Revision, 'evaluatorsJson'>): Evaluator[] {
  return evaluatorRevisionContent.shape.evaluators.parse(parseLossless(evaluatorsJson));
}

/** What the list of revisions has of one, as JSON. */
export function metadataJson({ evaluatorsJson: _evaluators, skipped: _skipped, ...metadata }: Revision): string {
  return JSON.stringify(metadata);
}

/** All of a revision, as JSON in one line. */
export function revisionJson(revision: Revision): string {
  const { evaluatorsJson, skipped } = revision;
  const metadata = metadataJson(revision).slice(0, -1);
  return `${metadata},"evaluators":${evaluatorsJson},"skipped":${JSON.stringify(skipped)}}`;
}

/** Bytes of {@link revisionJson}, but for the names of two members. */
export function bytesOf(revision: Revision): number {
  const texts = [metadataJson(revision), revision.evaluatorsJson, JSON.stringify(revision.skipped)];
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0);
}
