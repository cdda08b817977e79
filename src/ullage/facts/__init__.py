"""What is known about devices, models and engines: dated, sourced TOML files, and how they are read.

    quantity.py    "3.35 TB/s" as an exact number in the one unit used inside
    sheet.py       one fact file: sources, values, rows; strict
    catalogue.py   all fact files of one kind: names, aliases, search, a user's overlay
    device.py      what a device sheet holds, and the `Device` made from it
    engine.py      an engine's defaults by version
    startup.py     how long the phases of a start take, and how fast weights are read
    operations.py  how often devices, nodes and zones fail, and how long a repair takes
    efficiency.py  the share of a device's peak that engines reach, and how far an estimate errs
    published.py   what published configurations measured, as factors on their estimates
    price.py       what a price sheet holds
    model.py       what a language model is made of
    model_sheet.py what a model sheet holds
    quantised.py   a model of the catalogue in another format, by its checkpoint's name

A fact is an `Assumption`: value, range, evidence, source, date. This package reads its own packaged
files, once; a user's own files come in as text.
"""
