/** A long test run. `npm run campaign` runs it and writes its report to docs/campaign.md. */
export interface Campaign {
  /** Name on the command line, and of its block in the report. */
  readonly name: string;
  readonly title: string;
  /** Page that has its block between markers, without a heading; default: a section of docs/campaign.md. */
  readonly page?: string;
  /** Runs it; `print` reports progress. `rounds` overrides the default number of rounds. */
  readonly run: (print: (line: string) => void, rounds: number | undefined) => Promise<CampaignResult>;
}

/** Result of a campaign. */
export interface CampaignResult {
  readonly passed: boolean;
  /** Markdown: the workload, the measurements, the failures. */
  readonly report: string;
}
