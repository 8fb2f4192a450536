"""
report.py FOLDER PAGE... - fills the tables of a page from the numbers of a run

    <!-- table QUESTION: UNIT: CASE, CASE: SUBJECT, SUBJECT: of SUBJECT -->
    <!-- end -->

What stands between such a pair is replaced by medians; the last part, which may be
missing, adds what they are of another subject. "*" is every one there is.
"""
import csv
import re
import statistics
import sys


def numbers(folder, question):
    found = {}
    with open(f'{folder}/{question}.csv') as f:
        for row in csv.DictReader(f):
            found.setdefault((row['subject'], row['case'], row['unit']), []).append(float(row['value']))
    return {key: statistics.median(values) for key, values in found.items()}


def listed(text, there):
    return list(dict.fromkeys(there)) if text == '*' else [part.strip() for part in text.split(',')]


def said(value):
    return f'{value:,.0f}' if abs(value) >= 100 else f'{value:.3g}'


def cell(found, subject, case, unit, of):
    if (subject, case, unit) not in found:
        return '–'
    value = found[subject, case, unit]
    base = found.get((of, case, unit)) if of else None
    return said(value) + (f' ({value / base:.2f})' if base and subject != of else '')


def table(folder, directive):
    question, unit, cases, subjects, *of = (part.strip() for part in directive.split(':'))
    of = of[0].removeprefix('of ') if of else None
    found = numbers(folder, question)
    cases = listed(cases, (k[1] for k in found if k[2] == unit))
    subjects = listed(subjects, (k[0] for k in found if k[2] == unit))
    lines = [f'| {unit} | ' + ' | '.join(cases) + ' |', '|---|' + '--:|' * len(cases)]
    for subject in subjects:
        lines.append(f'| {subject} | ' + ' | '.join(cell(found, subject, case, unit, of) for case in cases) + ' |')
    return '\n'.join(lines)


def main():
    folder, *pages = sys.argv[1:]
    for page in pages:
        with open(page) as f:
            text = f.read()
        text = re.sub(r'(<!-- table (.*?) -->\n).*?(<!-- end -->)',
                      lambda m: m[1] + table(folder, m[2]) + '\n' + m[3], text, flags=re.S)
        with open(page, 'w') as f:
            f.write(text)


main()
